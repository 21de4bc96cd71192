"""log.jsonl, line by line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from attrs import frozen

from controlplane.errors import UsageError

NAME = "log.jsonl"


@frozen
class Line:
    """One event. `t` is virtual seconds as the log writes them; `obj` is kind/namespace/name or kind/name."""

    step: int
    t: float
    actor: str
    event: str
    obj: str
    uid: str
    version: int | None
    data: dict[str, Any]


def find(path: Path) -> Path:
    """The log in a folder that `run --out` left, or the file itself. Raises UsageError."""
    found = path / NAME if path.is_dir() else path
    if not found.is_file():
        raise UsageError(f"{found}: no such log; `controlplane run FILE... --out DIR` writes one")
    return found


def read(path: Path, about: str = "") -> Iterator[Line]:
    """Its lines, or only those that have the text `about` somewhere. Raises UsageError for what is no log."""
    with _opened(path) as file:
        for number, text in enumerate(file, 1):
            if about not in text and number > 1:  # the first line tells whether this is a log
                continue
            try:
                raw = json.loads(text)
                line = Line(
                    raw["step"],
                    raw["t"],
                    raw["actor"],
                    raw["event"],
                    raw.get("obj", ""),
                    raw.get("uid", ""),
                    raw.get("rv"),
                    raw.get("data") or {},
                )
            except (ValueError, KeyError, TypeError):
                raise UsageError(
                    f"{path}, line {number}: expected an event of a log (a JSON object)"
                ) from None
            if about in text:
                yield line


def _opened(path: Path) -> TextIO:
    try:
        return path.open(encoding="utf-8", errors="replace")  # what is no text is no log either
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
