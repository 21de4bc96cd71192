"""Links between two actors. Without one, messages arrive at once (and in an order that is still a choice).

A link has a latency (a base, and a spread drawn as choice "latency"; option 0 is the base), can be
*cut* (messages wait, as behind a dropped route, and go on when it is healed), can *lose* what is sent next (a
client that waits for an answer finds its connection reset, not knowing whether the request had its effect), and can
be *broken* (connections reset; see `Faults.break_link`). Channels stay first in, first out whatever the latency.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from actors.errors import LinkBroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.process import Mailbox, Message, Port, Request

SPREAD_STEPS = 8
"""Into how many options the spread of a latency is divided."""


class Link:
    """One direction between two actors. `latency_ns` and `spread_ns` in virtual nanoseconds."""

    __slots__ = (
        "_added_ns",
        "_held",
        "_kernel",
        "_last",
        "altered",
        "answers",
        "cut",
        "label",
        "latency_ns",
        "losing",
        "spread_ns",
    )

    def __init__(self, kernel: Port, label: str, latency_ns: int = 0, spread_ns: int = 0) -> None:
        self._kernel = kernel
        self.label = label
        self.latency_ns = latency_ns
        self.spread_ns = spread_ns
        self._added_ns = 0
        self.cut = False
        self.losing = 0
        """The number of next messages and answers that are lost on this link."""
        self.answers: deque[Any] = deque()
        """With these the next requests are answered before they arrive."""
        self.altered: deque[Any] = deque()
        """These take the place of the next answers: what was asked for has happened."""
        self._held: deque[Callable[[], None]] = deque()
        self._last: dict[tuple[int, Any], int] = {}

    def carry(self, target: Mailbox, key: Any, message: Message) -> None:
        """Take a message across."""
        if self.answers and message.request is not None:
            self._kernel.transport.answered(
                message.request, self.answers.popleft(), None, message.cause
            )
            return
        if self.losing:
            self.losing -= 1
            if message.request is not None:
                self._kernel.transport.answered(message.request, None, self._lost(), message.cause)
            elif message.stream is not None:
                message.stream.break_now()
            elif target.no in target.owner.open_streams:
                target.break_now()  # a connection either carries everything or breaks
            return
        self._after((target.no, key), partial(self._kernel.transport.deliver, target, key, message))

    def carry_answer(
        self, request: Request, value: Any, error: BaseException | None, cause: int
    ) -> None:
        """Take an answer back."""
        if self.losing:
            self.losing -= 1
            self._kernel.transport.answered(request, None, self._lost(), cause)
            return
        if self.altered and error is None:
            value = self.altered.popleft()
        self._after(
            (0, request.number),
            partial(self._kernel.transport.answered, request, value, error, cause),
        )

    def _lost(self) -> LinkBroken:
        return LinkBroken(f"{self.label}: the message was lost")

    def slow(self, ns: int) -> None:
        """Set the amount added to the latency; it replaces the previous one."""
        self._added_ns = ns

    def heal(self) -> None:
        """End a cut: what waited goes on, in order."""
        self.cut = False
        while self._held:
            self._held.popleft()()

    def has_pending_faults(self) -> bool:
        """Return whether future messages are to be lost or answered falsely."""
        return bool(self.losing or self.answers or self.altered)

    def relent(self) -> None:
        """They are not any more."""
        self.losing = 0
        self.answers.clear()
        self.altered.clear()

    def _after(self, channel: tuple[int, Any], arrive: Callable[[], None]) -> None:
        if self.cut:
            self._held.append(partial(self._after, channel, arrive))
            return
        kernel = self._kernel
        delay = self.latency_ns + self._added_ns
        if self.spread_ns:
            delay += (
                self.spread_ns
                * kernel.pick("latency", SPREAD_STEPS, self.label)
                // (SPREAD_STEPS - 1)
            )
        at = max(kernel.now + delay, self._last.get(channel, 0))
        if at <= kernel.now:
            arrive()
            return
        self._last[channel] = at
        kernel.timers.call_at(at, partial(self._arrive, arrive))

    def _arrive(self, arrive: Callable[[], None]) -> None:
        if self.cut:
            self._held.append(arrive)
        else:
            arrive()
