"""The inlet: how anything from outside enters a run.

External input (an HTTP request, a signal) is put in as bytes-or-MessagePack values for one actor's
mailbox. It is admitted at a step boundary, and the record (step, virtual time, actor, payload) is
kept, so the session can be replayed: then the recorded entries are admitted at the same steps and
nothing else can enter.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import msgpack

from actors.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.kernel import Kernel


class Input(NamedTuple):
    """One admitted input: before which step, at which virtual time, for whom, and what (MessagePack)."""

    step: int
    t_ns: int
    actor: str
    payload: bytes


class Inlet:
    """Admits input between steps. `put` is for the outside, everything else for the kernel."""

    def __init__(self, kernel: Kernel, recorded: Iterable[Input] | None = None) -> None:
        self._kernel = kernel
        self._waiting: deque[tuple[str, bytes, Callable[[Any], None] | None]] = deque()
        self._replay: deque[Input] | None = deque(recorded) if recorded is not None else None
        self.admitted: list[Input] = []

    def put(self, actor: str, payload: Any, on_reply: Callable[[Any], None] | None = None) -> None:
        """Offer `payload` to an actor; it enters at the next step boundary. Refused in a replay."""
        if self._replay is not None:
            raise UsageError("a replay takes no input: it brings its own")
        self._waiting.append((actor, msgpack.packb(payload), on_reply))

    def more(self) -> bool:
        """Whether input is still to come by itself (a replay's)."""
        return bool(self._replay) or bool(self._waiting)

    def skip_to_next(self) -> None:
        """Nothing else happens: let the next input enter now."""
        if self._replay and self._replay[0].t_ns > self._kernel.now:
            self._kernel.now = self._replay[0].t_ns
        self._admit_due(force=True)

    def admit(self) -> None:
        """Step boundary: let in what is due."""
        self._admit_due(force=False)

    def _admit_due(self, *, force: bool) -> None:
        kernel = self._kernel
        if self._replay is not None:
            while self._replay and (force or self._replay[0].step <= kernel.step):
                entry = self._replay.popleft()
                self._enter(entry.actor, entry.payload, None)
                force = False
            return
        while self._waiting:
            self._enter(*self._waiting.popleft())

    def _enter(self, actor: str, payload: bytes, on_reply: Callable[[Any], None] | None) -> None:
        kernel = self._kernel
        target = kernel.actors.get(actor)
        if target is None or target.mailbox is None:
            raise UsageError(f"input for {actor!r}: no such actor")
        self.admitted.append(Input(kernel.step, kernel.now, actor, payload))
        value = msgpack.unpackb(payload)
        message = ExternalMessage(value, on_reply)
        kernel.send(kernel.outside(), target.mailbox, message, key="outside")


class ExternalMessage:
    """What an actor receives from outside: `value`, and the way to answer."""

    __slots__ = ("on_reply", "value")
    label = "input"

    def __init__(self, value: Any, on_reply: Callable[[Any], None] | None) -> None:
        self.value = value
        self.on_reply = on_reply

    def reply(self, value: Any) -> None:
        """Answer to the outside; in a replay nobody listens."""
        if self.on_reply is not None:
            self.on_reply(value)
