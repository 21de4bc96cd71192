"""The queue of answers to a request, and the encoding of events as bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import trio

from controlplane.apiserver.http import answer_bodies
from controlplane.apiserver.http.answer_bodies import Chunk, Late
from controlplane.apiserver.http.message import CUT, END
from controlplane.apiserver.storage.watch_cache import WatchEvent

__all__ = ["COPIED", "Line", "Sink", "at_once", "encoded", "short_lines"]

Line = bytes | WatchEvent | Late
COPIED: Final = 16_384
"""The size, in bytes, below which data is joined to the frame around it and sent in one write."""


class Sink:
    """The queue of the world's answers to one request.

    The events of a stream wait here as references to objects that the server holds anyway, and are encoded
    when the client reads them: a slow client costs little, and so does a long initial list.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: deque[Any] = deque()
        self._batches = 0
        self._behind = 0
        self._came = trio.Event()
        self._waiting = False
        self.overflowed = False
        self.cut = False
        """A plan cuts the connection."""
        self.at_once: Callable[[Iterable[Line]], bytes | None] | None = None
        """Sends lines without waiting: answers what of them is still to be sent, None for nothing done."""
        self.rest = b""
        """The bytes that `at_once` could not send; they are sent first."""

    def push(self, piece: Any) -> None:
        """A piece came. Beyond the limit (what the first batch holds apart) the stream will be ended."""
        if isinstance(piece, tuple):
            if self._waiting and self.at_once is not None and not self._pieces and not self.rest:
                rest = self.at_once(piece)
                if rest is not None:
                    self.rest = rest
                    if rest:
                        self._came.set()
                    return
            self._behind += len(piece) if self._batches else 0
            self._batches += 1
            if self._behind > self._limit:
                self.overflowed = True
                piece = END
        self.cut = self.cut or piece is CUT
        self._pieces.append(piece)
        self._came.set()

    async def first(self) -> Any:
        """The first piece: a finished answer, the start of a stream, or None."""
        await self._came.wait()
        return self._pieces.popleft()

    async def lines(self) -> list[Line] | None:
        """All events that are here, at least some; None when the stream has ended.

        With a `rest` to be sent there may be none.
        """
        while not self._pieces:
            if self.rest:
                return []
            self._came = trio.Event()
            self._waiting = True
            await self._came.wait()
            self._waiting = False
        found: list[Line] = []
        while self._pieces and isinstance(self._pieces[0], tuple):
            found += self._pieces.popleft()
        self._batches = self._behind = 0
        return found or None


def short_lines(lines: Iterable[Line]) -> bytes | None:
    """The lines as bytes if they are few and short, None if they are to wait for their turn."""
    data = b""
    for line in lines:
        if isinstance(line, Late):
            return None
        data += line if isinstance(line, bytes) else answer_bodies.short_line(line)
        if not COPIED > len(data) > 0:
            return None
    return data


def at_once(
    system_write: Callable[[int, bytes], int],
    descriptor: int,
    framed: Callable[[bytes], bytes],
) -> Callable[[Iterable[Line]], bytes | None]:
    """Return a function that sends lines on a socket as one chunk, as far as it accepts them, without waiting.

    `framed` adds HTTP's framing of a chunk.
    """

    def write(lines: Iterable[Line]) -> bytes | None:
        data = short_lines(lines)
        if not data:
            return data
        frame = framed(data)
        try:
            return frame[system_write(descriptor, frame) :]
        except OSError:  # the waiting task gets the same error, or the client is slow
            return None

    return write


def encoded(lines: list[Line]) -> Iterator[Chunk]:
    """The lines as bytes, each let go of when it is taken."""
    lines.reverse()
    while lines:
        line = lines.pop()
        if isinstance(line, bytes):
            yield line
        elif isinstance(line, Late):
            yield line.made()
        else:
            yield from answer_bodies.event_parts(line)
