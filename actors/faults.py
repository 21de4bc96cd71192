"""Faults: what goes wrong on purpose, between two actors or with one of them.

Every fault, and its end, is a line of the log. A fault depends on everything, so footprints take its step as dependent
on all others.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from actors.log import WARNING

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.core import Core
    from actors.lifecycle import Lifecycle
    from actors.timers import Timers
    from actors.transport import Transport


class Faults:
    """The faults that a run can have. `Context.faults` and `World.faults` are this."""

    __slots__ = ("_asked", "_kernel", "_lifecycle", "_timers", "_transport", "injected", "planned")

    def __init__(
        self, kernel: Core, lifecycle: Lifecycle, transport: Transport, timers: Timers
    ) -> None:
        self._kernel = kernel
        self._lifecycle = lifecycle
        self._transport = transport
        self._timers = timers
        self.planned: list[tuple[int, int, Callable[[], None]]] = []
        """A heap of calls between two steps: before which step, in which order, and the call."""
        self._asked = 0
        self.injected: set[str] = set()
        """The names of the faults, and of their ends, that have happened so far."""

    def log(self, name: str, **data: Any) -> None:
        """Log a fault, or its end."""
        self.injected.add(name)
        kernel = self._kernel
        if kernel.footprint is not None:
            kernel.footprint.everything()
        kernel.log.emit(
            WARNING,
            kernel.step,
            kernel.now,
            kernel.task_no(),
            "fault",
            kernel.step,
            data={"fault": name, **data},
        )

    def cut(self, one: str, other: str) -> None:
        """Let messages between two actors wait, both ways, until the cut is healed."""
        self.log("cut", a=one, b=other)
        self._transport.link_between(one, other).cut = True
        self._transport.link_between(other, one).cut = True

    def heal(self, one: str, other: str) -> None:
        """End a cut and a delay: what waited goes on, in order."""
        self.log("heal", a=one, b=other)
        for pair in ((one, other), (other, one)):
            link = self._transport.links.get(pair)
            if link is not None:
                link.slow(0)
                link.heal()

    def delay(self, one: str, other: str, ns: int) -> None:
        """From now on messages between two actors take `ns` virtual nanoseconds longer, both ways."""
        self.log("delay", a=one, b=other, ns=ns)
        self._transport.link_between(one, other).slow(ns)
        self._transport.link_between(other, one).slow(ns)

    def lose(self, one: str, other: str, count: int = 1) -> None:
        """Lose the next `count` messages and answers from one actor to another; a waiting task gets LinkBroken."""
        self.log("lose", a=one, b=other, count=count)
        self._transport.link_between(one, other).losing += count

    def intercept(
        self, one: str, other: str, answer: Any, *, count: int = 1, label: str = ""
    ) -> None:
        """Answer the next `count` requests from one actor to another in its name; they never arrive."""
        self.log("intercept", a=one, b=other, count=count, answer=label)
        self._transport.link_between(one, other).answers.extend([answer] * count)

    def alter(self, one: str, other: str, answer: Any, *, count: int = 1, label: str = "") -> None:
        """Put `answer` in the place of the next `count` answers that one actor gets from another.

        The request was carried out, but the answer says otherwise.
        """
        self.log("alter", a=one, b=other, count=count, answer=label)
        self._transport.link_between(other, one).altered.extend([answer] * count)

    def relent(self, one: str, other: str) -> None:
        """Cancel the rest of `lose`, `intercept` and `alter` between two actors, in both directions."""
        pending = [self._transport.links.get(pair) for pair in ((one, other), (other, one))]
        links = [link for link in pending if link is not None and link.has_pending_faults()]
        if not links:
            return
        self.log("relent", a=one, b=other)
        for link in links:
            link.relent()

    def break_link(self, one: str, other: str) -> None:
        """Reset all connections between two actors: requests under way fail, streams break, both ways."""
        self.log("break", a=one, b=other)
        kernel = self._kernel
        self._lifecycle.reset(kernel.actor(one), other)
        self._lifecycle.reset(kernel.actor(other), one)

    def crash(self, name: str) -> None:
        """Kill an actor as SIGKILL would: its tasks, its memory, a suffix of its unsynced writes, its connections.

        Its tasks end before any other task runs.
        """
        kernel = self._kernel
        actor = kernel.actor(name)
        if not actor.alive:
            return
        self._lifecycle.end_tasks(actor)
        lost = actor.disk.crash(lambda n: kernel.pick("disk", n, f"{name} loses writes"))
        self.log("crash", actor=name, lost_writes=lost)
        self._lifecycle.reset_peers(actor)

    def restart(self, name: str) -> None:
        """Start a crashed actor again."""
        kernel = self._kernel
        actor = kernel.actor(name)
        self._lifecycle.start(actor)
        self.log("restart", actor=name, incarnation=actor.incarnation)

    def at_time(self, t_ns: int, call: Callable[[], None]) -> None:
        """Do something at a virtual time: the end of a fault."""
        self._timers.call_at(t_ns, call)

    def at_step(self, step: int, call: Callable[[], None]) -> None:
        """Do something between two steps, before step `step`, if the run comes that far."""
        self._asked += 1  # two for the same step happen in the order in which they were asked for
        heapq.heappush(self.planned, (max(step, self._kernel.step + 1), self._asked, call))

    def between_steps(self, call: Callable[[], None]) -> None:
        """Do something between two steps: now if no step is being taken, else before the next one."""
        kernel = self._kernel
        if kernel.current is None:
            call()
        else:
            self.at_step(kernel.step + 1, call)

    def run_due(self) -> None:
        """Make the calls that were planned for before the next step."""
        planned = self.planned
        while planned and planned[0][0] <= self._kernel.step + 1:
            heapq.heappop(planned)[2]()
