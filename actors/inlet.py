"""The inlet: how anything from outside enters a run.

External input (an HTTP request, a signal) is put in as bytes-or-MessagePack values for one actor's
mailbox. It is admitted at a step boundary, and the record (step, virtual time, actor, payload) is
kept, so the session can be replayed: then the recorded entries are admitted at the same steps and
nothing else can enter. An order to stop enters the same way, as an entry for no actor.

When nothing is ready, timers that are due by the entry's virtual time fire before it enters; the
rule is the same live and in a replay.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgpack

from actors.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.process import Port

STOP: Final = ""
"""The actor of an entry that ends the run; its payload is the reason."""


class Input(NamedTuple):
    """One admitted input: after which step, at which virtual time, for which actor, and its content (MessagePack)."""

    step: int
    t_ns: int
    actor: str
    payload: bytes


class Inlet:
    """Admits input between steps. `put` and `stop` are for the outside, everything else for the kernel.

    `keep`: whether what was admitted is remembered for a recording. `on_put` is called when input
    waits; `entry_time` says which virtual time it gets when nothing is ready (a paced run's clock).
    """

    def __init__(self, kernel: Port, recorded: Iterable[Input] | None = None) -> None:
        self._kernel = kernel
        self._waiting: deque[tuple[str, bytes, Callable[[Any], None] | None]] = deque()
        self._replay: deque[Input] | None = deque(recorded) if recorded is not None else None
        self._afterwards: deque[tuple[int, str, bytes, Callable[[Any], None] | None]] = deque()
        self.admitted: list[Input] = []
        self.keep = True
        self.on_put: Callable[[], None] | None = None
        self.entry_time: Callable[[int], int] | None = None

    @property
    def replaying(self) -> bool:
        """Return whether the input comes from a recording."""
        return self._replay is not None

    def put(self, actor: str, payload: Any, on_reply: Callable[[Any], None] | None = None) -> None:
        """Offer `payload` to an actor; it enters at the next step boundary. Refused in a replay.

        `on_reply` gets what the actor answers, as often as it does; None if the actor is down.
        """
        if self._replay is not None:
            raise UsageError("a replay takes no input: it brings its own")
        self._waiting.append((actor, msgpack.packb(payload), on_reply))
        if self.on_put is not None:
            self.on_put()

    def stop(self, reason: str) -> None:
        """End the run at the next step boundary; a replay of the recording ends there too."""
        if self._replay is not None:
            self._kernel.finish("stopped", reason)
            return
        self.put(STOP, reason)

    def put_after(
        self, step: int, actor: str, payload: Any, on_reply: Callable[[Any], None] | None = None
    ) -> None:
        """Let `payload` enter after `step`, whenever that is: what a fork adds to what was recorded."""
        self._afterwards.append((step, actor, msgpack.packb(payload), on_reply))

    def to_come(self) -> bool:
        """Return whether further input comes without a client: that of a replay, or of a fork."""
        return bool(self._replay) or bool(self._afterwards)

    def due(self, step: int, now: int) -> int | None:
        """Nothing is ready after `step`: the virtual time at which the next input enters here, if one does."""
        if self._afterwards and self._afterwards[0][0] <= step and not self._replay:
            return now
        if self._replay is not None:
            if self._replay and self._replay[0].step <= step:
                return self._replay[0].t_ns
            return None
        if not self._waiting:
            return None
        return now if self.entry_time is None else self.entry_time(now)

    def admit(self) -> None:
        """Step boundary: let in what is due."""
        replay = self._replay
        kernel = self._kernel
        if replay is not None:
            while replay and replay[0].step <= kernel.step and replay[0].t_ns <= kernel.now:
                entry = replay.popleft()
                self._enter(entry.actor, entry.payload, None)
        if self._afterwards and not replay:
            while self._afterwards and self._afterwards[0][0] <= kernel.step:
                self._enter(*self._afterwards.popleft()[1:])
        if replay is not None:
            return
        while self._waiting:
            self._enter(*self._waiting.popleft())

    def _enter(self, actor: str, payload: bytes, on_reply: Callable[[Any], None] | None) -> None:
        kernel = self._kernel
        if self.keep:
            self.admitted.append(Input(kernel.step, kernel.now, actor, payload))
        value = msgpack.unpackb(payload)
        kernel.note_input()
        if actor == STOP:
            kernel.finish("stopped", str(value))
            return
        target = kernel.actors.get(actor)
        if target is None or target.mailbox is None:
            raise UsageError(f"input for {actor!r}: no such actor")
        if not target.alive and on_reply is not None:
            on_reply(None)
        message = ExternalMessage(value, on_reply)
        kernel.transport.send(kernel.transport.outside(), target.mailbox, message, key="outside")


class Outlet:
    """The way of an actor's requests to the outside; answers come by the inlet.

    `on_put` is the listener; a replay has none, as the answers are in the recording.
    """

    __slots__ = ("on_put",)

    def __init__(self) -> None:
        self.on_put: Callable[[Any], None] | None = None

    def put(self, value: Any) -> None:
        """Tell the outside; at once, and for nothing in return."""
        if self.on_put is not None:
            self.on_put(value)


class ExternalMessage:
    """A message from outside: `value`, and the way to answer. An interceptor may put in a `gate` for a stream."""

    __slots__ = ("gate", "on_reply", "value")
    label = "input"

    def __init__(self, value: Any, on_reply: Callable[[Any], None] | None) -> None:
        self.value = value
        self.on_reply = on_reply
        self.gate: Any = None

    def reply(self, value: Any) -> None:
        """Answer to the outside, once or piece by piece; in a replay there is no listener."""
        if self.on_reply is not None:
            self.on_reply(value)
