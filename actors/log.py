"""The event log: every step, message, write, decision and fault, packed to MessagePack at once.

Kept tuples cost more through the garbage collector than packing them on the spot, so an event
exists only as bytes until it is read. The trace hash is BLAKE2b over the whole stream,
whatever the level: the level decides only what is kept, so the hash of a run is the same at every
level.

On disk and in memory an event is an array `[step, t, task, event, cause, obj, uid, rv, data]`,
trailing nulls left out: `step` counts from 1, `t` is virtual nanoseconds, `task` the task's number,
`event` a name, `cause` the step that led here (0: none), `obj` "kind/namespace/name", `rv` a
resource version, `data` a map. A "task" event declares each task.
"""

from __future__ import annotations

import hashlib
import io
import zlib
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

import msgpack

from actors.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

TRACE: Final = 5
"""Steps and messages."""
DEBUG: Final = 10
INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40
OFF: Final = 100

LEVELS: Final = {
    "trace": TRACE,
    "debug": DEBUG,
    "info": INFO,
    "warning": WARNING,
    "error": ERROR,
    "off": OFF,
}
About = tuple[str | None, str | None, int | None]
"""The subject of an event: kind/namespace/name, uid and resource version; None for what is not known."""
NOTHING: Final[About] = (None, None, None)
FLUSH_EVENTS = 256
"""Events between two hand-overs of the buffer, and between two marks."""
MARK_BYTES = 8
NAMES_KEPT = 20_000
"""The number of task names up to which a log that is read as it grows keeps all; about 5 MB."""
CHECKED_EVENTS = 100_000
"""The number of a run's first events for which a recording holds a check value each, to name the first that differs.
"""


_WORLD_TASK: Final = 0
_WORLD: Final = {_WORLD_TASK: ("world", "world")}


class Marks(NamedTuple):
    """The identity of a trace, for comparing two: the hash, a digest per 256 events, a byte per event.

    Of a trace that was not kept whole there is no byte for each event.
    """

    trace_hash: str
    digests: tuple[bytes, ...]
    checks: bytes


class Event(NamedTuple):
    """One event as read back. `actor` and `task` are names; `t_ns` is virtual nanoseconds since the start."""

    step: int
    t_ns: int
    actor: str
    task: str
    event: str
    cause: int
    obj: str | None
    uid: str | None
    rv: int | None
    data: Mapping[str, Any] | None


class EventLog:
    """Packs events, keeps those of `level` and above, hashes all of them.

    `keep=False` keeps nothing: the exploration mode, where only the hash (and the recording)
    matter.
    """

    heard: ClassVar[bool] = True
    """False if events are not recorded; test it before an event's text is built."""

    __slots__ = (
        "_checked",
        "_chunks",
        "_count",
        "_differs",
        "_digests",
        "_expected",
        "_hash",
        "_kept",
        "_notes",
        "_packer",
        "_room",
        "closed",
        "events",
        "keep_all",
        "level",
        "noting",
        "pack",
    )

    def __init__(self, level: int = TRACE, *, keep: bool = True) -> None:
        self.level = level if keep else OFF
        self.keep_all = keep and level <= TRACE
        self._packer = msgpack.Packer(autoreset=False)
        self.pack = self._packer.pack
        self._kept = msgpack.Packer(autoreset=False)
        self.noting = self.keep_all
        """True if notes are kept: details for readers, which are not part of the trace."""
        self._notes: list[tuple[int, bytes]] = []
        self._chunks: list[bytes] = []
        self._checked = b""
        """The bytes for each of the first events, of what is no longer kept."""
        self._hash = hashlib.blake2b(digest_size=16)
        self._count = 0
        self._room = FLUSH_EVENTS
        self._digests = bytearray()
        self._expected: Marks | None = None
        self._differs: Callable[[str], None] | None = None
        self.events = 0
        self.closed = False

    def expect(self, marks: Marks, differs: Callable[[str], None]) -> None:
        """Compare with the trace of an earlier run; `differs` is called at most once, with where they part."""
        self._expected = marks
        self._differs = differs

    def step(self, step: int, t_ns: int, task: int, point: str, cause: int) -> None:
        """Record that a task ran one step from `point` on. The hot path: one pack and one counter."""
        if self.closed:
            return
        self.pack((step, t_ns, task, point, cause))
        self._count += 1
        if self._count >= self._room:
            self._flush()

    def emit(
        self,
        level: int,
        step: int,
        t_ns: int,
        task: int,
        event: str,
        cause: int = 0,
        *,
        about: About = NOTHING,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Record one event. `data` must hold only what MessagePack knows; a set raises TypeError on purpose."""
        if self.closed:
            return
        obj, uid, rv = about
        if data is not None:
            record: tuple[Any, ...] = (step, t_ns, task, event, cause, obj, uid, rv, data)
        elif rv is not None:
            record = (step, t_ns, task, event, cause, obj, uid, rv)
        elif obj is not None or uid is not None:
            record = (step, t_ns, task, event, cause, obj, uid)
        else:
            record = (step, t_ns, task, event, cause)
        self.pack(record)
        if level >= self.level and not self.keep_all:
            self._kept.pack(record)
        self._count += 1
        if self._count >= self._room:
            self._flush()

    def note(
        self,
        step: int,
        t_ns: int,
        task: int,
        event: str,
        obj: str | None,
        uid: str | None,
        rv: int | None,
        data: Mapping[str, Any] | None,
    ) -> None:
        """Keep a detail: what a step read, say. It costs nothing where the log is not kept whole, and moves no hash."""
        if not self.closed:
            record = (step, t_ns, task, event, step, obj, uid, rv, data)
            self._notes.append((step, msgpack.packb(record)))

    def _flush(self) -> bytes:
        """Hand the buffer over; what it held."""
        packed: bytes = self._packer.bytes()
        chunk = packed
        self._packer.reset()
        self._hash.update(chunk)
        first = self.events
        self.events += self._count
        self._count = 0
        whole = self.events % FLUSH_EVENTS == 0
        self._room = FLUSH_EVENTS - self.events % FLUSH_EVENTS
        if whole and chunk:
            self._digests += self._hash.digest()[:MARK_BYTES]
            self._compare(chunk, first)
        if not self.keep_all:
            if self.level >= OFF:
                return packed
            chunk = self._kept.bytes()
            self._kept.reset()
        if chunk:
            self._chunks.append(chunk)
        return packed

    def _compare(self, chunk: bytes, first: int) -> None:
        """Compare the last mark; of a chunk that differs find the event that does."""
        expected = self._expected
        if expected is None or self._differs is None:
            return
        at = len(self._digests) // MARK_BYTES - 1
        if at < len(expected.digests) and expected.digests[at] == self._digests[-MARK_BYTES:]:
            return
        self._report(chunk, first)

    def _report(self, chunk: bytes, first: int) -> None:
        expected, differs = self._expected, self._differs
        assert expected is not None
        assert differs is not None
        self._expected = self._differs = None
        found = checks_of([chunk])
        then = expected.checks[first : first + len(found)]
        index = next(
            (at for at, (one, other) in enumerate(zip(found, then, strict=False)) if one != other),
            min(len(found), len(then)) if len(found) != len(then) else 0,
        )
        events = list(msgpack.Unpacker(io.BytesIO(chunk), use_list=False))
        if not events:
            differs("the trace ends before the recorded one")
            return
        if not then or index >= len(events):
            between = f"between steps {events[0][0]} and {events[-1][0]}"
            differs(f"the trace differs from the recording {between}")
            return
        step, event = events[index][0], events[index][3]
        differs(f"step {step}: the trace differs from the recording, first in {event!r}")

    def marks(self) -> Marks:
        """Return the marks of this trace; the log must be closed."""
        assert self.closed
        checks = self._checked + checks_of(self._chunks) if self.keep_all else b""
        checks = checks[:CHECKED_EVENTS]
        return Marks(self._hash.hexdigest(), parted(bytes(self._digests)), checks)

    def marks_with(self, *last: Any) -> Marks:
        """The marks of the trace if it ended now with one more event, whose fields are those of `emit`."""
        self._flush()
        trace = self._hash.copy()
        trace.update(msgpack.packb(last))
        digests = bytes(self._digests)
        if (self.events + 1) % FLUSH_EVENTS == 0:
            digests += trace.digest()[:MARK_BYTES]
        return Marks(trace.hexdigest(), parted(digests), b"")

    def close(self) -> str:
        """Take no more events; the trace hash, 32 hex digits."""
        if not self.closed:
            first = self.events
            last = self._flush()
            self.closed = True
            expected = self._expected
            if expected is not None and expected.trace_hash != self._hash.hexdigest():
                self._report(last, first)
        return self._hash.hexdigest()

    def chunks(self) -> list[bytes]:
        """The kept stream without notes, as it is."""
        if not self.closed:
            self._flush()
        return self._chunks

    def forget(self) -> None:
        """Keep no longer what was kept so far: it was read, by a `Tail`."""
        if self.keep_all and len(self._checked) < CHECKED_EVENTS:
            self._checked = (self._checked + checks_of(self._chunks))[:CHECKED_EVENTS]
        self._chunks.clear()
        self._notes.clear()

    def keep_nothing(self) -> None:
        """Keep nothing from now on, nor what was kept so far; the hash goes on."""
        self.level, self.keep_all, self.noting = OFF, False, False
        self._chunks.clear()
        self._notes.clear()

    def __iter__(self) -> Iterator[Event]:
        return read(self.chunks(), self._notes)


class Unheard(EventLog):
    """Records nothing: for a run whose trace and recording are not needed.

    Such a run has no trace hash. What it does is what it does under any other log.
    """

    heard = False

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(OFF, keep=False)

    def expect(self, marks: Marks, differs: Callable[[str], None]) -> None:
        """Refused: a replay is compared with what was recorded."""
        raise UsageError("a replay needs a log that takes its trace down")

    def step(self, step: int, t_ns: int, task: int, point: str, cause: int) -> None:
        """Nothing."""

    def emit(
        self,
        level: int,
        step: int,
        t_ns: int,
        task: int,
        event: str,
        cause: int = 0,
        *,
        about: About = NOTHING,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Nothing."""

    def marks(self) -> Marks:
        """Those of no trace."""
        return Marks("", (), b"")

    def marks_with(self, *last: Any) -> Marks:
        """Those of no trace."""
        return self.marks()

    def close(self) -> str:
        """There is no trace, so no hash."""
        self.closed = True
        return ""


def parted(digests: bytes) -> tuple[bytes, ...]:
    """Digests that stand one after the other."""
    starts = range(0, len(digests), MARK_BYTES)
    return tuple(digests[at : at + MARK_BYTES] for at in starts)


class Tail:
    """The events of a log that goes on, as they come; the log must keep them.

    With `forget` it keeps them no longer once they came; then no other may read it.
    """

    def __init__(
        self,
        log: EventLog,
        *,
        forget: bool = False,
        living: Callable[[], Collection[int]] | None = None,
    ) -> None:
        """Begin with the first event.

        With `living`, the numbers of the tasks that have not ended, names of ended tasks are forgotten once there
        are more than `NAMES_KEPT` names; those of the newest tasks stay, as an event may follow its task's end.
        """
        self._log = log
        self._forget = forget
        self._chunks = 0
        self._notes = 0
        self._names = dict(_WORLD)
        self._living = living

    def news(self) -> Iterator[Event]:
        """Return the events since the last call. Between two steps only: notes of a step come at its end."""
        if self._living is not None and len(self._names) > NAMES_KEPT:
            living, newest = self._living(), max(self._names) - NAMES_KEPT // 2
            self._names = {
                no: name
                for no, name in self._names.items()
                if no > newest or no in living or no in _WORLD
            }
        chunks = self._log.chunks()[self._chunks :]
        notes = self._log._notes[self._notes :]
        if self._forget:
            self._log.forget()
        else:
            self._chunks += len(chunks)
            self._notes += len(notes)
        return read(chunks, notes, self._names)


def checks_of(chunks: Iterable[bytes]) -> bytes:
    """A byte for each of the first events of a whole stream."""
    found = bytearray()
    for chunk in chunks:
        if len(found) >= CHECKED_EVENTS:
            break
        unpacker = msgpack.Unpacker(max_buffer_size=0)
        unpacker.feed(chunk)
        start = 0
        while start < len(chunk):
            unpacker.skip()
            end = unpacker.tell()
            found.append(zlib.crc32(chunk[start:end]) & 0xFF)
            start = end
    return bytes(found[:CHECKED_EVENTS])


TASK_DECLARED = "task"


def read(
    chunks: list[bytes],
    notes: Sequence[tuple[int, bytes]] = (),
    names: dict[int, tuple[str, str]] | None = None,
) -> Iterator[Event]:
    """The events of a kept stream, with task numbers resolved to names. Notes come at the end of their step.

    `names` are those of tasks that were declared before; the ones that are declared here are added.
    """
    names = dict(_WORLD) if names is None else names
    unpacker = msgpack.Unpacker(max_buffer_size=0, use_list=False)
    at = 0
    for chunk in chunks:
        unpacker.feed(chunk)
        for record in unpacker:
            # The world's own events stand between steps: the notes of the step before them are complete.
            below = record[0] + (record[2] == _WORLD_TASK)
            while at < len(notes) and notes[at][0] < below:
                yield _event(msgpack.unpackb(notes[at][1], use_list=False), names)
                at += 1
            yield _event(record, names)
    for _, packed in notes[at:]:
        yield _event(msgpack.unpackb(packed, use_list=False), names)


def _event(record: tuple[Any, ...], names: dict[int, tuple[str, str]]) -> Event:
    step, t_ns, task, event, cause, *rest = record
    obj, uid, rv, data = (*rest, None, None, None, None)[:4]
    if event == TASK_DECLARED and data is not None:
        names[data["no"]] = (data["actor"], data["task"])
    actor, name = names.get(task, ("?", str(task)))
    return Event(step, t_ns, actor, name, event, cause, obj, uid, rv, data)
