"""The scheduler's task: when a cycle runs, and how long the pause after it is.

A cycle that admitted something is followed by the next at once, any other by a pause of 1, 2, 4, 8 and then
10 milliseconds, as upstream's `wait.UntilWithBackoff` has it. Where upstream goes on trying the same heads for ever
(StrictFIFO, a scan of flavors that begins anew), nothing is tried here that was tried before under the same
circumstances: the next cycle waits for a change. That hides counts of attempts and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from controlplane.client.errors import RequestFailed
from controlplane.decisions import Locked, Point

if TYPE_CHECKING:
    from controlplane.controllers.common.controller import Host, Queue
    from controlplane.kueue.process.carrying import Carried, Carrier
    from controlplane.kueue.queues.manager import QueueManager

SCHEDULER: Final = "kueue-scheduler"
CYCLE: Final = "cycle"
MILLISECOND: Final = 1_000_000
PAUSES: Final = (1, 2, 4, 8, 10)
"""Milliseconds; the last one is repeated."""

Cycle = Callable[[], Generator[Any, Any, bool | None]]


class SchedulerTask:
    """Runs cycles whenever there are heads.

    Args:
        host: The controller's host: time and work queue.
        queues: The queue manager.
        cycle: One scheduling cycle. Returns True if it admitted or evicted something, None without heads.
        carrier: Carries the cycle's effects out.
    """

    def __init__(self, host: Host, queues: QueueManager, cycle: Cycle, carrier: Carrier) -> None:
        self._host = host
        self._queue: Queue = host.queue(SCHEDULER)
        self._queues = queues
        self._cycle = cycle
        self._carrier = carrier
        self._running = self._inside = False
        self._changed = True
        self._failures = 0
        self._next = 0
        self._tried: dict[tuple[object, ...], None] = {}
        self._held: Carried[bool | None] | None = None
        """A cycle that waits for something, as one does for the pods of all admitted workloads."""

    def wake(self) -> None:
        """Something changed: run a cycle as soon as the pause is over."""
        if self._inside:
            return  # what a cycle itself does is no change that it has not seen
        self._changed = True
        if not self._running:
            self._queue.add_after(CYCLE, max(self._next - self._host.now, 0))

    def _within(self, inside: bool) -> None:
        self._inside = inside

    def run(self, _key: str) -> Carried[None]:
        """Run cycles until there is nothing to try."""
        self._running = True
        try:
            while self._held is not None or self._worth_trying():
                cycle = self._held or self._carrier.run(self._cycle(), self._within)
                self._held = None
                held, progress = yield from _until_held(cycle)
                if held:
                    self._held = cycle
                    return
                if progress is None:
                    return
                if not progress:
                    self._pause()
                    return
                self._failures = self._next = 0
                self._changed = True
                yield Point(f"{SCHEDULER}.next")
        finally:
            self._running = False

    def _worth_trying(self) -> bool:
        """Return whether the heads have not been tried since the last change."""
        state = self._queues.waiting()
        if self._changed:
            self._tried.clear()
            self._changed = False
        elif state in self._tried:
            return False
        self._tried[state] = None
        return True

    def _pause(self) -> None:
        pause = PAUSES[min(self._failures, len(PAUSES) - 1)] * MILLISECOND
        self._failures += 1
        self._next = self._host.now + pause
        self._queue.add_after(CYCLE, pause)


def _until_held(cycle: Carried[bool | None]) -> Carried[tuple[bool, bool | None]]:
    """Go on with a cycle until it ends, or has to wait: whether it waits, and its result."""
    answer: Any = None
    failure: Exception | None = None
    while True:
        try:
            effect = cycle.send(answer) if failure is None else cycle.throw(failure)
        except StopIteration as stop:
            return False, stop.value
        answer = failure = None
        if isinstance(effect, Locked):
            return True, None
        try:
            answer = yield effect
        except RequestFailed as error:
            failure = error
