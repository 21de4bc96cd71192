"""Operations in parts: what upstream does under separate locks, or writes to disk one after the other.

An operation of a manager is a generator. Each time it yields, its memory is in the state in which
others of the kubelet may see it (`Point`), or a file has to be written before it goes on (`Write`).
The caller that runs it decides what may happen in between: another task, a crash.
"""

from __future__ import annotations

from collections.abc import Generator, MutableMapping
from typing import TYPE_CHECKING, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    from controlplane.api.pod import Pod


@attrs.frozen
class Point:
    """Between two critical sections: another task may run here."""

    name: str


class Content(Protocol):
    """Content of a file; the text is only made when it is read."""

    @property
    def text(self) -> str:
        """The text, to the byte."""


@attrs.frozen
class Write:
    """A file that is to hold this content. Memory is ahead of the disk until that is done."""

    file: str
    content: Content


@attrs.frozen
class Kill:
    """A pod has to make room: it goes on when that pod's containers have stopped, or it took too long."""

    pod: Pod


@attrs.frozen
class FetchNode:
    """The node as it is known does not fit: read it from the server, if that answers."""


Step = Point | Write | Kill | FetchNode
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
