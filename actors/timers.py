"""Timers: virtual time moves to the next of them when no task is ready.

Timers fire in order of (time, sequence). A timer whose wait is over already is stale: it is dropped, and time does not
move for it.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from actors.errors import Divergence
from actors.jsonl import seconds
from actors.process import PARKED, Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.core import Core


class Timers:
    """The timers of one run."""

    __slots__ = ("_kernel", "_sequence", "busy", "heap")

    def __init__(self, kernel: Core) -> None:
        self._kernel = kernel
        self.heap: list[tuple[int, int, Task | Callable[[], None], int, bool, Any, int]] = []
        self.busy = 0
        """The number of timers that keep the run from settling."""
        self._sequence = 0

    def arm(self, task: Task, wait_no: int, at_ns: int, *, idle: bool, value: Any = None) -> None:
        """Wake that wait of `task` at `at_ns` at the latest. An idle timer does not keep the run from settling."""
        self._sequence += 1
        if not idle:
            task.armed = True
            self.busy += 1
        made = self._kernel.step
        heapq.heappush(self.heap, (at_ns, self._sequence, task, wait_no, idle, value, made))

    def call_at(self, at_ns: int, call: Callable[[], None]) -> None:
        """Let the kernel itself do something at a time: a delayed delivery, the end of a fault."""
        self._sequence += 1
        self.busy += 1
        made = self._kernel.step
        heapq.heappush(self.heap, (at_ns, self._sequence, call, 0, False, None, made))

    def disarm(self, task: Task) -> None:
        """Note that the wait which a timer of this task would end is over."""
        if task.armed:
            task.armed = False
            self.busy -= 1

    def fire(self) -> None:
        """Move time to the next timer and fire it. Stale timers are dropped without moving time."""
        kernel = self._kernel
        at_ns, _, target, wait_no, _, value, armed = heapq.heappop(self.heap)
        if isinstance(target, Task):
            if target.wait_no != wait_no or target.state != PARKED:
                return
            kernel.move_time(at_ns)
            # The cause is the step that set the timer.
            kernel.wake(target, wait_no, value, cause=armed)
            return
        kernel.move_time(at_ns)
        self.busy -= 1
        target()

    def drop_stale(self) -> None:
        """Drop the stale timers before the first one that is due."""
        timers = self.heap
        while timers:
            _, _, target, wait_no, _, _, _ = timers[0]
            if isinstance(target, Task) and (target.wait_no != wait_no or target.state != PARKED):
                heapq.heappop(timers)
            else:
                return

    def advance(self) -> bool:
        """With no task ready, let time pass to the next instant at which something happens.

        False ends the run, or, when it is paced and has no verdict yet, lets the driver wait.
        """
        kernel = self._kernel
        ready = kernel.ready
        timers = self.heap
        inlet = kernel.inlet
        pace = kernel.pace
        until = kernel.until_ns
        while not ready:
            if kernel.verdict is not None:
                return False
            self.drop_stale()
            at_ns = timers[0][0] if timers else None
            if inlet is not None:
                due = inlet.due(kernel.step, kernel.now)
                if due is not None:
                    if at_ns is not None and at_ns <= due:
                        self._fire_instant(at_ns)
                    else:
                        kernel.move_time(due)
                        inlet.admit()
                    continue
            if pace is not None:
                if not pace.reached(at_ns, kernel.now, busy=self.busy > 0):
                    return False
            elif at_ns is None or (until is None and self.busy == 0):
                if inlet is None or not inlet.to_come():
                    kernel.settled()
                    return False
                if at_ns is None:
                    raise Divergence(
                        f"step {kernel.step}: the run settled, but input was recorded after a later step",
                        index=len(kernel.choices),
                        step=kernel.step,
                    )
            assert at_ns is not None
            if until is not None and at_ns > until:
                kernel.move_time(until)
                kernel.finish("until", f"virtual time {seconds(until)} s reached")
                return False
            self._fire_instant(at_ns)
        return True

    def _fire_instant(self, at_ns: int) -> None:
        timers = self.heap
        while timers and timers[0][0] <= at_ns:
            self.fire()
