"""Flushes: pods whose wait ends because of the time.

Upstream: `flushBackoffQCompleted` (every second) and `flushUnschedulablePodsLeftover` (every 30 s) of
`pkg/scheduler/backend/queue/scheduling_queue.go`, both under the queue's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.times import SECOND
from controlplane.decisions import Steps
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.queue.moves import MOVED, Moves
from controlplane.scheduler.queue.transfers import Transfers

if TYPE_CHECKING:
    from controlplane.gates import FixGates

DEFAULT_MAX_IN_UNSCHEDULABLE_PODS = 300 * SECOND
UNSCHEDULABLE_FLUSH_PERIOD = 30 * SECOND
BACKOFF_FLUSH_PERIOD = 1 * SECOND


class Flushes:
    """The bodies of the queue's two timers. `max_in_unschedulable` is nanoseconds."""

    def __init__(
        self, transfers: Transfers, moves: Moves, max_in_unschedulable: int, fixes: FixGates
    ) -> None:
        self._transfers = transfers
        self._places = transfers.places
        self._moves = moves
        self._limit = max_in_unschedulable
        self._counts_flushes = fixes.fixed("139162")

    def backoff(self, now: int) -> Steps[bool]:
        """Make pods ready whose backoff is over, one after the other: each can be popped at once."""
        ready = False
        while (info := self._places.backoff_q.pop_one_completed(now)) is not None:
            if self._transfers.move_to_active(info, ev.BACKOFF_COMPLETE, now, from_backoff=True):
                ready = True
                yield MOVED
        return self._transfers.signal(ready)

    def unschedulable(self, now: int) -> Steps[bool]:
        """Retry pods that have waited too long for an event, as if an event that concerns all had come."""
        late = [
            info
            for info in self._places.unschedulable
            if now - max(info.timestamp, info.flushed_at) > self._limit
        ]
        if not late:
            return False
        for info in late:
            info.was_flushed_from_unschedulable = True
        ready = yield from self._moves.move(late, ev.UNSCHEDULABLE_TIMEOUT, None, None, now)
        if self._counts_flushes:
            for info in late:
                info.flushed_at = now
                if info.gated:
                    info.was_flushed_from_unschedulable = False
        return ready

    def next_unschedulable_timeout(self) -> int | None:
        """Return the earliest time at which `unschedulable` finds a pod; None with an empty pool."""
        times = [max(info.timestamp, info.flushed_at) for info in self._places.unschedulable]
        return min(times) + self._limit + 1 if times else None
