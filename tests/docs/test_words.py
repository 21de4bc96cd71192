"""Pages use the words of the glossary, and the glossary has what pages need."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, name

AVOIDED = {
    "nobody": "no client, no task ...",
    "somebody": "a client, a task ...",
    "everybody": "every client, every task ...",
    "anybody": "any client ...",
    "whoever": "the component that",
    "dull": "default",
    "stranger": "unauthenticated connection",
    "strangers": "unauthenticated connections",
    "strike": "fault, happen",
    "strikes": "fault, happens",
    "struck": "fault, happened",
    "promised": "allocated",
    "hears": "receives, is notified",
    "heard": "received, notified",
    "hopes": "reachability goals",
}
"""Words that the code once had, and what the field says instead."""
TERMS = re.findall(
    r"^(\w[\w -]*)$", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE
)
OWN = [page for page in PAGES if page.name != "CONTRIBUTING.md"]


def prose(text: str) -> str:
    """The text without console blocks, code and names of options."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|--[\w-]+", "", text)


@pytest.mark.parametrize("page", OWN, ids=name)
def test_a_page_uses_the_words_of_the_field(page):
    words = re.findall(r"[a-z]+", prose(page.read_text(encoding="utf-8")).lower())
    assert {word: AVOIDED[word] for word in words if word in AVOIDED} == {}


def test_the_glossary_has_each_term_once():
    assert 40 <= len(TERMS) <= 65
    assert len(set(TERMS)) == len(TERMS)


@pytest.mark.parametrize(
    "term", ["region", "point", "invariant", "fault", "allocated", "strategy", "DPOR"]
)
def test_the_glossary_has_this_term(term):
    assert term in TERMS


def test_an_avoided_word_would_be_found():
    assert "nobody" in prose("So nobody comes.\n```console\nstrangers\n```\n`whoever`")
    assert "whoever" not in prose("`whoever`")
    assert "strangers" not in prose("```console\nstrangers\n```\n")


def test_every_page_has_a_title():
    for page in OWN:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(("# ", "```{include}")), page.relative_to(ROOT)
