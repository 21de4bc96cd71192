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
    done: list[str] = []
    for paragraph in re.split(r"\n(?:[ \t]*\n)+", "\n".join(lines)):
        own = paragraph.split("\n")
        if own[0].startswith("    "):
            if not _in_block(done):
                done += ["::", ""]
            done += own
        else:
            own = _CODE.sub(_literal, paragraph).split("\n")
            fields = any(_FIELD.match(each) for each in own)
            done += own if fields else [_escaped(each.strip()) for each in own]
        done.append("")
    return done


def _literal(found: re.Match[str]) -> str:
    return f"``{' '.join(found[1].split())}``"


def _in_block(done: list[str]) -> bool:
    return len(done) > 1 and done[-2].startswith("    ")


def _escaped(each: str) -> str:
    parts = _LITERAL.split(each)
    return "".join(part if at % 2 else _MARKUP.sub(r"\\\1", part) for at, part in enumerate(parts))
