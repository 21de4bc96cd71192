"""Docstrings, which are plain text with code between backticks, as reStructuredText."""

from __future__ import annotations

import re

_CODE = re.compile(r"(?<![`:\\])`([^`\n]+(?:\n\s*[^`\n]+)?)`(?!`)")
_LITERAL = re.compile(r"(``[^`]*``)")
_MARKUP = re.compile(r"([*|])")
_FIELD = re.compile(r":[\w ]+.*:|\.\. ")


def as_rst(lines: list[str]) -> list[str]:
    """Return a docstring with its code as literals; examples and lists, which stand four spaces in, keep their lines.

    Fields, which another extension has made of the sections before, stay as they are.
    """
    text = _CODE.sub(lambda found: f"``{' '.join(found[1].split())}``", "\n".join(lines))
    done: list[str] = []
    for paragraph in re.split(r"\n(?:[ \t]*\n)+", text):
        own = paragraph.split("\n")
        if any(_FIELD.match(each) for each in own):
            done += own
        elif own[0].startswith("    "):
            if done and done[-1] == "":
                done.pop()
            done += ["", "::", "", *own] if not _in_block(done) else ["", *own]
        else:
            done += [_escaped(each.strip()) for each in own]
        done.append("")
    return done


def _in_block(done: list[str]) -> bool:
    return bool(done) and done[-1].startswith("    ")


def _escaped(each: str) -> str:
    parts = _LITERAL.split(each)
    return "".join(part if at % 2 else _MARKUP.sub(r"\\\1", part) for at, part in enumerate(parts))
