"""Work queues: keys to be reconciled, each by one worker at a time. Upstream: client-go util/workqueue.

A key added while it is being processed runs once more afterwards, however often it was added.
Delayed keys keep their earliest time. Time is handed in (virtual nanoseconds).
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from attrs import define

from controlplane.client.rate_limits import MS, SECOND, Bucket, MaxOf, PerItemBackoff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.client.queue_metrics import QueueMetrics

__all__ = ["MS", "SECOND", "RateLimiter", "WorkQueue"]


@define
class _Delay:
    """The due time of a waiting key, and whether the run may end before it."""

    ready_at: int
    idle: bool


class WorkQueue:
    """Queue, dirty and processing sets, and a heap of delayed keys.

    `metrics` hears of what happens. Once shut down the queue takes nothing more, and hands out what
    it has.
    """

    __slots__ = (
        "_busy_delays",
        "_delayed",
        "_dirty",
        "_metrics",
        "_processing",
        "_queue",
        "_seq",
        "_taken",
        "_waiting",
        "shutting_down",
    )

    def __init__(self, metrics: QueueMetrics | None = None) -> None:
        self._metrics = metrics
        self.shutting_down = False
        self._queue: deque[str] = deque()
        self._dirty: dict[str, None] = {}
        self._processing: dict[str, int] = {}
        self._taken = 0
        self._delayed: list[tuple[int, int, str]] = []
        self._waiting: dict[str, _Delay] = {}
        self._busy_delays = 0
        self._seq = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, key: str) -> bool:
        """Ask for `key` to be processed; whether that put it into the queue now."""
        if key in self._dirty or self.shutting_down:
            return False
        if self._metrics is not None:
            self._metrics.add(key)
        self._dirty[key] = None
        if key in self._processing:
            return False
        self._queue.append(key)
        return True

    def add_after(self, key: str, ready_at: int, now: int, *, idle: bool = False) -> bool:
        """Ask for `key` at `ready_at`; an earlier time already set stays.

        An `idle` delay is one that need not be awaited; a key asked for in both ways is not idle.
        Answers whether `key` went straight into the queue, because its time has come.
        """
        if self.shutting_down:
            return False
        if self._metrics is not None:
            self._metrics.retry()
        if ready_at <= now:
            return self.add(key)
        known = self._waiting.get(key)
        if known is None:
            known = self._waiting[key] = _Delay(ready_at, idle)
            self._busy_delays += not idle
        else:
            if known.idle and not idle:
                known.idle = False
                self._busy_delays += 1
            if known.ready_at <= ready_at:
                return False
            known.ready_at = ready_at
        self._seq += 1
        heapq.heappush(self._delayed, (ready_at, self._seq, key))
        return False

    def relax(self, key: str) -> bool:
        """The delay of `key`, if it has one, need not be awaited any more; whether that changes something."""
        known = self._waiting.get(key)
        if known is None or known.idle:
            return False
        known.idle = True
        self._busy_delays -= 1
        return True

    def shut_down(self) -> None:
        """Take nothing more. What waits for its time is forgotten."""
        self.shutting_down = True
        self._delayed.clear()
        self._waiting.clear()
        self._busy_delays = 0

    @property
    def processing(self) -> Mapping[str, int]:
        """The keys that workers have taken and not given back, with the number of the taking."""
        return self._processing

    @property
    def only_idle_delays(self) -> bool:
        """Return whether no key waits that must be awaited."""
        return self._busy_delays == 0

    def next_due(self) -> int | None:
        """Return the time at which the first delayed key is due, None if none waits."""
        delayed = self._delayed
        while delayed:
            ready_at, _, key = delayed[0]
            known = self._waiting.get(key)
            if known is not None and known.ready_at == ready_at:
                return ready_at
            heapq.heappop(delayed)
        return None

    def release(self, now: int) -> int:
        """Move delayed keys that are due into the queue; how many went in."""
        released = 0
        while (due := self.next_due()) is not None and due <= now:
            _, _, key = heapq.heappop(self._delayed)
            self._busy_delays -= not self._waiting.pop(key).idle
            released += self.add(key)
        return released

    def get(self) -> str | None:
        """Take the next key; call `done` when it has been processed. None when the queue is empty."""
        if not self._queue:
            return None
        key = self._queue.popleft()
        self._taken += 1
        self._processing[key] = self._taken
        del self._dirty[key]
        if self._metrics is not None:
            self._metrics.get(key)
        return key

    def done(self, key: str) -> bool:
        """Processing of `key` ended; if it was added meanwhile it is queued again, and this is True."""
        self._processing.pop(key, None)
        if self._metrics is not None:
            self._metrics.done(key)
        if key not in self._dirty:
            return False
        self._queue.append(key)
        return True


class RateLimiter(MaxOf):
    """The delay of a failed key: per-key exponential, and a token bucket shared by all.

    Defaults of controllers: 5 ms doubled per failure up to 1000 s; 10 tokens per second, bursts of
    100.
    """

    __slots__ = ()

    def __init__(
        self, *, base_ns: int = 5 * MS, max_ns: int = 1000 * SECOND, qps: int = 10, burst: int = 100
    ) -> None:
        super().__init__(PerItemBackoff(base_ns, max_ns), Bucket(qps, burst))
