"""The pages of the documentation, and the commands that they show."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (
    *(path for path in sorted(DOCS.rglob("*.md")) if not path.parent.name.startswith("_")),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
)
MARK = "<!-- runnable -->"
_BLOCK = re.compile(rf"^({re.escape(MARK)}\n)?```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STATUS = re.compile(r"# exit status (\d+)")


class Command(NamedTuple):
    """One command of a console block: its words, its exit status, and whether the block is marked as runnable."""

    words: tuple[str, ...]
    status: int
    runnable: bool
    shown: tuple[str, ...] = ()
    """Lines of its output, as far as the page shows them."""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def commands(text: str) -> list[Command]:
    """Commands of all console blocks, in order. Lines with a prompt are commands; without any prompt all lines are."""
    found = []
    for marked, block in _BLOCK.findall(text):
        lines = block.replace("\\\n", " ").splitlines()
        prompted = any(line.startswith("$ ") for line in lines)
        for line in lines:
            if prompted and not line.startswith("$ "):
                if found and line.strip():
                    found[-1] = found[-1]._replace(shown=(*found[-1].shown, line.strip()))
                continue
            words = tuple(shlex.split(line.removeprefix("$ "), comments=True))
            status = _STATUS.search(line)
            if words:
                found.append(Command(words, int(status[1]) if status else 0, bool(marked)))
    return found


def likeness(line: str) -> str:
    """Return a line of output without what differs between versions of the code: numbers, uids, runs of blanks."""
    line = re.sub(r"\b[0-9a-f]{8}-[0-9a-f-]+|\b[0-9a-f]{32}\b|\b[0-9a-f]{8}\b", "UID", line)
    line = re.sub(r"-(?:[a-z0-9]{8,10}-)?[a-z0-9]{5}\b(?=[ ,:]|$)", "-NAME", line)
    return " ".join(re.sub(r"\d[\d,.]*", "N", line).split())
