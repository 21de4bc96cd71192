"""Input, output and outcomes of the programs of the emulated shell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from attrs import define, frozen

OUTPUT_LIMIT: Final = 64 << 20
"""The limit, in bytes, of the output of a program."""


class Exhausted(Exception):
    """A program wants more than an emulated container has."""


class OutOfWork(Exhausted):
    """A script has had its steps of work."""


class InputWanted(Exception):
    """A program reads input that only a client at the container's standard input could give."""


class Forever(Exception):
    """A program waits for something that does not come: it runs until it is stopped."""


class Exit(Exception):
    """`exit`, with its code."""


class Return(Exception):
    """`return` from a function, with its code."""


class Jump(Exception):
    """`break` or `continue` out of a number of loops."""

    def __init__(self, *, again: bool, levels: int) -> None:
        super().__init__()
        self.again = again
        self.levels = levels


@frozen
class Ran:
    """The output of a program and its exit code."""

    out: bytes = b""
    err: bytes = b""
    code: int = 0


@define
class Input:
    """Standard input; `wanted`: reading it is refused, as it comes from a client."""

    data: bytes = b""
    wanted: bool = False

    def rest(self) -> bytes:
        """Return all that is left. Raises InputWanted."""
        if self.wanted:
            raise InputWanted
        found, self.data = self.data, b""
        return found

    def line(self) -> bytes | None:
        """Return the next line with its end; None at the end. Raises InputWanted."""
        if self.wanted:
            raise InputWanted
        if not self.data:
            return None
        line, end, self.data = self.data.partition(b"\n")
        return line + end


class Sink(Protocol):
    """The receiver of output."""

    def write(self, data: bytes) -> None:
        """Take output."""


class Buffer:
    """Output that is kept."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        """Keep output. Raises Exhausted when it becomes too much."""
        self.data += data
        check_output(len(self.data))


@frozen
class Streams:
    """Standard input, output and error of a command."""

    given: Input
    out: Sink
    err: Sink


class Nothing:
    """The receiver behind /dev/null."""

    def write(self, data: bytes) -> None:
        """Drop output."""


def check_output(size: int) -> None:
    """Raise Exhausted for more output than a program may have."""
    if size > OUTPUT_LIMIT:
        raise Exhausted(f"more than {OUTPUT_LIMIT} bytes of output")


class ToFile:
    """Output into a file, which `keep` gets when the command has ended."""

    def __init__(self, begun: bytes, keep: Callable[[bytes], None]) -> None:
        self._keep = keep
        self._data = bytearray(begun)

    def write(self, data: bytes) -> None:
        """Take output. Raises Exhausted when it becomes too much."""
        self._data += data
        check_output(len(self._data))

    def close(self) -> None:
        """Write the file. Raises Exhausted."""
        self._keep(bytes(self._data))
