"""The lines of a container's log file: in the format of CRI or of Docker, as a kubelet reads them.

The first line decides on the format; a later one that cannot be read is left out. Upstream: cri-client pkg/logs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from controlplane.api.host_access import LogOptions
from controlplane.api.times import SECOND, format_time, parse_go_time
from controlplane.api.validation import quote

__all__ = ["LogError", "LogText", "Written"]

STREAMS: Final = ("stdout", "stderr")


class LogError(Exception):
    """A log that cannot be read; the text is the server's."""


class Written(NamedTuple):
    """A piece of a container's output. `time` is its text in the file, `at` the same in nanoseconds since 1970."""

    time: str
    at: int
    stream: str
    text: bytes


def cri_line(line: bytes) -> Written:
    """Read a line such as `2016-10-06T00:17:09.669794202Z stdout F content`. Raises ValueError."""
    time, _, rest = line.partition(b" ")
    at = parse_go_time(time.decode("ascii"))
    stream, found, rest = rest.partition(b" ")
    if not found or stream.decode("ascii") not in STREAMS:
        raise ValueError("no stream")
    tags, found, text = rest.partition(b" ")
    if not found:
        raise ValueError("no tag")
    if tags.split(b":")[0] == b"P":
        text = text.removesuffix(b"\n")
    return Written(time.decode("ascii"), at, stream.decode("ascii"), text)


def docker_line(line: bytes) -> Written:
    """Read a line such as `{"log":"content","stream":"stdout","time":"2016-10-20T18:39:20Z"}`. Raises ValueError."""
    tree = json.loads(line)
    if not isinstance(tree, dict):
        raise ValueError("not an object")  # noqa: TRY004 - a line of another form, whatever it is
    values = [tree.get(name, "") for name in ("time", "stream", "log")]
    if not all(isinstance(each, str) for each in values):
        raise ValueError("not a text")
    time, stream, text = values
    time = time or "0001-01-01T00:00:00Z"
    return Written(time, parse_go_time(time), stream, text.encode("utf-8", "replace"))


_FORMS: Final[tuple[Callable[[bytes], Written], ...]] = (cri_line, docker_line)


class LogText:
    """Turns the lines of a file into what a client gets, by its options."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._form: Callable[[bytes], Written] | None = None
        self._left = options.limit
        self._lines = None if options.follow else options.tail
        self._new_line = True
        self.done = self._lines == 0
        """The client has got all that it asked for."""

    def of(self, line: bytes) -> tuple[str, bytes] | None:
        """Return the stream and the bytes of a line; None for one that is left out. Raises LogError."""
        if self._form is None:
            self._form = _form_of(line)
        try:
            written = self._form(line)
            dated = self._options.timestamps and self._new_line
            data = _stamp(written) + written.text if dated else written.text
        except (ValueError, RecursionError):
            return None
        if self._options.since and written.at < self._options.since:
            data = b""
        if self._left is not None:
            data = data[: self._left]
        if data and written.stream not in STREAMS:
            raise LogError(f"unexpected stream type {quote(written.stream)}")
        if self._left is not None and data:
            self._left -= len(data)
            self.done = self._left <= 0
        if self._lines is not None:
            self._lines -= 1
            self.done = self.done or self._lines == 0
        self._new_line = not written.text or written.text.endswith(b"\n")
        return (written.stream, data) if data else None


def _form_of(line: bytes) -> Callable[[bytes], Written]:
    for form in _FORMS:
        try:
            form(line)
        except (ValueError, RecursionError):
            continue
        return form
    shown = quote(line.decode("utf-8", "replace"))
    raise LogError(f"failed to get parse function: unsupported log format: {shown}")


def _stamp(written: Written) -> bytes:
    """Return the time of a line in its own zone, with nine digits of the second. ValueError before the year 1."""
    zone = written.time[-6:]
    if zone[0] not in "+-" or zone[1:] == "00:00":
        offset, zone = 0, "Z"
    else:
        offset = int(zone[:3]) * 3600 + int(zone[0] + zone[4:]) * 60
    local = written.at + offset * SECOND
    return f"{format_time(local).removesuffix('Z')}.{local % SECOND:09}{zone} ".encode()
