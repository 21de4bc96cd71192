"""The log of a run, read back: whole, by step, or what mentions a text.

The lines of a log.jsonl stand in the order of their steps, so a step is found by halving the file and
a name by searching its bytes: no index is made, and a log of millions of events is never in memory.
What is damaged is left out and said (`RunLog.damage`).
"""

from __future__ import annotations

import gzip
import mmap
import os
import tempfile
import weakref
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol

import msgspec

from controlplane.errors import UsageError
from controlplane.logs.checking import LARGEST, check_data
from controlplane.logs.vocabulary import LEVEL_OF, LEVELS, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "log.jsonl"
NAMES = (NAME, f"{NAME}.zst", f"{NAME}.gz")
OLDER = "log.1.jsonl"
"""The part before `log.jsonl` of a log that was limited (`serve --out-limit`)."""
RECORDING = "run.rec"
MAX_BYTES = 1 << 36
"""The largest size of a decompressed log, in bytes."""
_CHUNK = 1 << 20
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


_Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=LARGEST / 1e9)]
if TYPE_CHECKING:
    _Level = str
else:  # one that is made from a table is no type for a checker
    _Level = Literal["", *LEVELS]


class Line(msgspec.Struct, gc=False, frozen=True):
    """One event. `t` is virtual seconds, `obj` kind/namespace/name or kind/name; "" and None where it says nothing.

    A step has no `level`: its `event` is the point from which the task ran on.
    """

    step: _Count
    t: _Seconds
    actor: str
    task: str
    event: str
    run: str = ""
    level: _Level = ""
    obj: str = ""
    uid: str = ""
    rv: _Count | None = None
    cause: tuple[_Count, ...] = ()
    data: dict[str, Any] = {}

    @property
    def is_step(self) -> bool:
        """Return whether this line is a step of a task, and no event within one."""
        return not self.level


DAMAGED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of `decode` for text that is not an event: malformed, of other types, or not UTF-8."""
_decode = msgspec.json.Decoder(Line).decode


def decode(text: bytes) -> Line:
    """Decode a line of log.jsonl; its data are as the vocabulary has them. Raises one of `DAMAGED`."""
    line = _decode(text)
    check_data(line.event, line.data)
    return line


def _levelled(text: bytes) -> Line:
    """A line of a log of before format 2, which has no levels: those of the vocabulary."""
    line = decode(text)
    level = LEVEL_OF.get(line.event, "")
    return msgspec.structs.replace(line, level=level) if level else line


def _damaged_header(text: bytes) -> Line | None:
    """The first line of a log, though its data are not as the vocabulary has them; None if it is no such line."""
    try:
        line = _decode(text)
    except DAMAGED:
        return None
    return line if line.event == "log" else None


class Events(Protocol):
    """A sequence of events that can be read by step: a log, or a part of one."""

    def __iter__(self) -> Iterator[Line]: ...

    def between(self, first: int, last: int) -> Iterator[Line]:
        """The events of these steps, both included."""
        ...


def find(path: Path) -> Path:
    """The log in a folder that `run --out` left, or the file itself. Raises UsageError."""
    if path.is_dir():
        for name in NAMES:
            if (path / name).is_file():
                return path / name
        path /= NAME
    if not path.is_file():
        raise UsageError(f"{path}: no such log; a run with --out DIR writes one")
    return path


class RunLog:
    """One log. `name` is what people call it, `path` the file it was read from."""

    def __init__(self, path: Path, name: str = "") -> None:
        """Open a log, compressed or not. Raises UsageError for what cannot be read, or is no log."""
        self.path = path
        self.name = name or str(path)
        self.damage: list[str] = []
        """The parts that could not be read, one sentence each."""
        self._packed = False
        self._plain: Path | None = None
        try:
            with path.open("rb") as file:
                self._bytes = self._mapped(file)
        except OSError as error:
            raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
        first = self._bytes[: self._bytes.find(b"\n") + 1 or None]
        self._read: Callable[[bytes], Line] = decode
        line = self._line(first)
        header = line or _damaged_header(first)
        if len(self._bytes) and header is None:
            raise UsageError(f"{path}, line 1: expected an event of a log (a JSON object)")
        if header is not None and header.event != "log":
            self._read = _levelled
        elif header is not None and (
            line is None or header.data.get("vocabulary", VERSION) not in range(VERSION + 1)
        ):
            self.damage.append(
                f"{self.name}: written by a newer version ({header.data.get('package', '?')}):"
                " what it says may be misunderstood"
            )
        if line is not None and line.event == "log" and "first_step" in line.data:
            older = path.with_name(OLDER)
            where = f"{older} has those before" if older.is_file() else "those before are gone"
            self.damage.append(
                f"{self.name}: it was limited: its events begin at step {line.data['first_step']:,}; {where}"
            )

    def _mapped(self, file: IO[bytes]) -> mmap.mmap | bytes:
        magic = file.read(4)
        file.seek(0)
        if magic.startswith(_GZIP):
            return self._unpacked(gzip.GzipFile(fileobj=file))
        if magic == _ZSTD:
            try:
                import zstandard
            except ImportError:
                raise UsageError(
                    f"{self.path}: reading zstd needs the package zstandard: pip install 'controlplane[zstd]'"
                ) from None
            reader = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
            return self._unpacked(reader)
        if not magic:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    @property
    def without_levels(self) -> bool:
        """Return whether its lines are those of before format 2; events have the levels of the vocabulary all the
        same.
        """
        return self._read is _levelled

    def plain(self) -> Path:
        """A file with its lines as they are, for programs that read it themselves; it goes with this object."""
        if not self._packed and self.path.is_file():
            return self.path
        if self._plain is None:
            number, name = tempfile.mkstemp(suffix=".jsonl", prefix="controlplane-")
            self._plain = Path(name)
            weakref.finalize(self, self._plain.unlink, missing_ok=True)
            with os.fdopen(number, "wb") as file:
                file.write(self._bytes)
        return self._plain

    def _unpacked(self, packed: Any) -> mmap.mmap | bytes:
        """Its bytes in an unnamed file, which is removed with its last reader."""
        self._packed = True
        size = 0
        with tempfile.TemporaryFile() as file:
            try:
                while chunk := packed.read1(_CHUNK):  # what comes before an early end as well
                    size += len(chunk)
                    if size > MAX_BYTES:
                        raise UsageError(
                            f"{self.path}: comes to more than {MAX_BYTES >> 30} GiB unpacked"
                        )
                    file.write(chunk)
            except (EOFError, OSError, zlib.error) as error:
                self._broken(error)
            except Exception as error:  # zstandard's own
                if isinstance(error, UsageError):
                    raise
                self._broken(error)
            file.flush()
            if not size:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def _broken(self, error: Exception) -> None:
        self.damage.append(f"{self.path}: its compression ends early or is damaged ({error})")

    def _line(self, text: bytes) -> Line | None:
        try:
            return self._read(text)
        except DAMAGED:
            return None

    # ------------------------------------------------------------------ reading

    def __iter__(self) -> Iterator[Line]:
        """All events. What is no event is left out, and counted in `damage`."""
        data, start, number, bad = self._bytes, 0, 0, 0
        first_bad = 0
        size = len(data)
        find, read = data.find, self._read
        while start < size:
            end = find(b"\n", start) + 1 or size
            number += 1
            try:
                line = read(data[start:end])
            except DAMAGED:
                bad += 1
                first_bad = first_bad or number
                if end == size and data[size - 1 : size] != b"\n":
                    self._damaged(f"it ends in the middle of line {number:,}")
                    bad -= 1
            else:
                yield line
            start = end
        if bad:
            lines = "line is" if bad == 1 else "lines are"
            self._damaged(f"{bad:,} {lines} no event, first line {first_bad:,}")

    def _damaged(self, what: str) -> None:
        said = f"{self.name}: {what}; the rest was read"
        if said not in self.damage:
            self.damage.append(said)

    def mentioning(self, text: str) -> Iterator[Line]:
        """The events that have a text somewhere."""
        data, wanted = self._bytes, text.encode("utf-8", "surrogateescape")
        at = data.find(wanted)
        while at >= 0:
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at) + 1 or len(data)
            line = self._line(data[start:end])
            if line is not None:
                yield line
            at = data.find(wanted, end)

    def between(self, first: int, last: int, text: str = "") -> Iterator[Line]:
        """The events of these steps, both included; only those that have a text somewhere."""
        data, size, wanted = self._bytes, len(self._bytes), text.encode("utf-8", "surrogateescape")
        start = self._offset(first)
        while start < size:
            end = data.find(b"\n", start) + 1 or size
            line = self._line(data[start:end])
            if line is not None:
                if line.step <= last and data.find(wanted, start, end) < 0:
                    start = end
                    continue
                if line.step > last:
                    return
                if line.step >= first:
                    yield line
            start = end

    def at(self, step: int) -> list[Line]:
        """The events of one step: the step itself first."""
        found = list(self.between(step, step))
        return sorted(found, key=lambda line: not line.is_step)

    def _offset(self, step: int) -> int:
        """Return the offset of the first event of this step, or of a later one."""
        data = self._bytes
        low, high = 0, len(data)
        while low < high:
            middle = (low + high) // 2
            start = data.rfind(b"\n", 0, middle) + 1
            end = data.find(b"\n", start) + 1 or len(data)
            line = self._line(data[start:end])
            while line is None and end < high:  # a damaged line says nothing
                start, end = end, data.find(b"\n", end) + 1 or len(data)
                line = self._line(data[start:end])
            if line is not None and line.step < step:
                low = end
            else:
                high = min(high, data.rfind(b"\n", 0, middle) + 1)
        return low

    def last(self) -> Line | None:
        """The last event that can be read; the verdict, where only what its step read stands behind it."""
        data, end = self._bytes, len(self._bytes)
        last: Line | None = None
        while end > 0:
            start = data.rfind(b"\n", 0, end - 1) + 1
            line = self._line(data[start:end])
            if line is not None:
                if line.event == "verdict":
                    return line
                if last is not None and line.step != last.step:
                    break
                last = last or line
            end = start
        return last


class Kept:
    """A log that was never a file: the events of a run of this process, in the order of their steps."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = list(lines)
        self._steps: dict[int, list[Line]] = {}
        for line in self._lines:
            self._steps.setdefault(line.step, []).append(line)

    def __iter__(self) -> Iterator[Line]:
        return iter(self._lines)

    def at(self, step: int) -> list[Line]:
        """The events of one step: the step itself first."""
        return sorted(self._steps.get(step, ()), key=lambda line: not line.is_step)

    def last(self) -> Line | None:
        """The last event."""
        return self._lines[-1] if self._lines else None


def follow(path: Path, wait: Callable[[], bool], text: str = "") -> Iterator[Line]:
    """Events as they are written, those that have a text somewhere; `wait` is called when there is nothing
    new, and ends it by answering False. Raises UsageError for a log that is packed.
    """
    rest, wanted = b"", text.encode("utf-8", "surrogateescape")
    with path.open("rb") as file:
        if file.read(4).startswith((_GZIP, _ZSTD)):
            raise UsageError(f"{path}: a packed log does not grow: read it without --follow")
        file.seek(0)
        while True:
            chunk = file.read(_CHUNK)
            if not chunk:
                if not wait():
                    return
                continue
            *whole, rest = (rest + chunk).split(b"\n")
            for each in whole:
                if wanted not in each:
                    continue
                try:
                    yield decode(each)
                except DAMAGED:
                    continue
