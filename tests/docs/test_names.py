"""Modules, names and files that pages mention exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, name

TEXTS = (
    *PAGES,
    ROOT / "NOTICE",
    ROOT / "SECURITY.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "bench").glob("*.md")),
)
BASES = (ROOT, *(ROOT / "controlplane" / part for part in ("", "apiserver", "scheduler")))
"""Files are named from the project's folder, or from that of the package; those of a component from its own."""
CODE = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"(?:actors|controlplane)(?:\.\w+)+")
FILE = re.compile(r"(?:\.?[\w-]+/)+(?:[\w.-]*\w)?|\w[\w.-]*\.(?:py|md)")
OF_USERS = ("controlplane.kubeconfig",)
"""Names that look like modules and are not."""
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def resolves(dotted: str) -> bool:
    """Return whether a dotted name is a module, or a name within one."""
    module, _, rest = dotted, "", ""
    while module:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}" if rest else last
            continue
        for part in filter(None, rest.split(".")):
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_modules_and_names_of_a_page_exist(page):
    found = {
        text
        for text in CODE.findall(page.read_text(encoding="utf-8"))
        if DOTTED.fullmatch(text) and text not in OF_USERS
    }
    assert [text for text in sorted(found) if not resolves(text)] == []


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_files_of_this_project_that_a_page_names_exist(page):
    texts = CODE.findall(page.read_text(encoding="utf-8"))
    if page.name == "NOTICE":
        texts = re.findall(r"controlplane/[\w/.]+", page.read_text(encoding="utf-8"))
    ours = [
        text
        for text in texts
        if FILE.fullmatch(text)
        and (text.split("/")[0] in TOP or text.endswith((".py", ".md")))
        and "NUMBER" not in text
    ]
    assert [each for each in ours if not any(exists(base / each) for base in BASES)] == []


TOP = {path.name for base in BASES for path in base.iterdir() if path.is_dir()} - {"docs", ".git"}


def exists(path: Path) -> bool:
    """Return whether the file or folder exists; a bare file name may be anywhere below the folder."""
    return path.exists() or (path.suffix == ".py" and any(path.parent.rglob(path.name)))


@pytest.mark.parametrize("page", [p for p in TEXTS if p.parent == ROOT and p.suffix], ids=name)
def test_links_of_pages_outside_of_the_site_lead_somewhere(page):
    links = LINK.findall(page.read_text(encoding="utf-8"))
    ours = [link for link in links if "://" not in link]
    assert [link for link in ours if not (page.parent / link).exists()] == []


def test_what_does_not_exist_would_be_found():
    assert resolves("controlplane.scenarios.Scenario")
    assert not resolves("controlplane.scenarios.Scenery")
    assert not resolves("controlplane.no_such_module")
    assert FILE.fullmatch("scheduler/no_such_file.py")
    assert not exists(ROOT / "controlplane" / "scheduler" / "no_such_file.py")
