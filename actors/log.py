"""The event log: every step, message, write, decision and fault, packed to MessagePack at once.

Kept tuples cost more through the garbage collector than packing them on the spot, so an event
exists only as bytes until somebody reads it. The trace hash is BLAKE2b over the whole stream,
whatever the level: the level decides only what is kept, so the hash of a run is the same at every
level.

On disk and in memory an event is an array `[step, t, task, event, cause, obj, uid, rv, data]`,
trailing nulls left out: `step` counts from 1, `t` is virtual nanoseconds, `task` the task's number,
`event` a name, `cause` the step that led here (0: none), `obj` "kind/namespace/name", `rv` a
resource version, `data` a map. A "task" event declares each task.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
FLUSH_EVENTS = 2048
"""Events packed between two hand-overs of the buffer."""


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

    __slots__ = (
        "_chunks",
        "_count",
        "_hash",
        "_kept",
        "_packer",
        "closed",
        "events",
        "keep_all",
        "level",
        "pack",
    )

    def __init__(self, level: int = TRACE, *, keep: bool = True) -> None:
        self.level = level if keep else OFF
        self.keep_all = keep and level <= TRACE
        self._packer = msgpack.Packer(autoreset=False)
        self.pack = self._packer.pack
        self._kept = msgpack.Packer(autoreset=False)
        self._chunks: list[bytes] = []
        self._hash = hashlib.blake2b(digest_size=16)
        self._count = 0
        self.events = 0
        self.closed = False

    def step(self, step: int, t_ns: int, task: int, point: str, cause: int) -> None:
        """Record that a task ran one step from `point` on. The hot path: one pack and one counter."""
        if self.closed:
            return
        self.pack((step, t_ns, task, point, cause))
        self._count += 1
        if self._count >= FLUSH_EVENTS:
            self._flush()

    def emit(
        self,
        level: int,
        step: int,
        t_ns: int,
        task: int,
        event: str,
        cause: int = 0,
        obj: str | None = None,
        uid: str | None = None,
        rv: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Record one event. `data` must hold only what MessagePack knows; a set raises TypeError on purpose."""
        if self.closed:
            return
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
        if self._count >= FLUSH_EVENTS:
            self._flush()

    def _flush(self) -> None:
        chunk = self._packer.bytes()
        self._packer.reset()
        self._hash.update(chunk)
        self.events += self._count
        self._count = 0
        if not self.keep_all:
            if self.level >= OFF:
                return
            chunk = self._kept.bytes()
            self._kept.reset()
        if chunk:
            self._chunks.append(chunk)

    def close(self) -> str:
        """Take no more events; the trace hash, 32 hex digits."""
        if not self.closed:
            self._flush()
            self.closed = True
        return self._hash.hexdigest()

    def chunks(self) -> list[bytes]:
        """The kept stream, to be written to a file as it is."""
        if not self.closed:
            self._flush()
        return self._chunks

    def __iter__(self) -> Iterator[Event]:
        return read(self.chunks())


TASK_DECLARED = "task"


def read(chunks: list[bytes]) -> Iterator[Event]:
    """The events of a kept stream, with task numbers resolved to names."""
    names: dict[int, tuple[str, str]] = {0: ("world", "world")}
    unpacker = msgpack.Unpacker(max_buffer_size=0, use_list=False)
    for chunk in chunks:
        unpacker.feed(chunk)
        for record in unpacker:
            step, t_ns, task, event, cause, *rest = record
            obj, uid, rv, data = (*rest, None, None, None, None)[:4]
            if event == TASK_DECLARED and data is not None:
                names[data["no"]] = (data["actor"], data["task"])
            actor, name = names.get(task, ("?", str(task)))
            yield Event(step, t_ns, actor, name, event, cause, obj, uid, rv, data)
