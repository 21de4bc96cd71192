"""Operations in parts: what upstream does under separate locks, or writes to disk one after the other.

An operation of a manager is a generator. Each time it yields, its memory is in the state in which
others of the kubelet may see it (`Point`), or a file has to be written before it goes on (`Write`).
Whoever runs it decides what may happen in between: another task, a crash.
"""

from __future__ import annotations

from collections.abc import Generator, MutableMapping
from typing import Protocol, TypeVar

import attrs


@attrs.frozen
class Point:
    """Between two critical sections: another task may run here."""

    name: str


class Content(Protocol):
    """What a file is to hold; the text is only made when somebody reads it."""

    @property
    def text(self) -> str:
        """The text, to the byte."""


@attrs.frozen
class Write:
    """A file that is to hold this content. Memory is ahead of the disk until that is done."""

    file: str
    content: Content


Step = Point | Write
T = TypeVar("T")
Steps = Generator[Step, None, T]


def run(steps: Steps[T], files: MutableMapping[str, str] | None = None) -> T:
    """Carry an operation out in one go; its files are written into `files`."""
    while True:
        try:
            step = next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        if files is not None and isinstance(step, Write):
            files[step.file] = step.content.text
