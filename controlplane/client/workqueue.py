"""Work queues: keys to be reconciled, each by one worker at a time. Upstream: client-go util/workqueue.

A key added while it is being processed runs once more afterwards, however often it was added.
Delayed keys keep their earliest time. Time is handed in (virtual nanoseconds).
"""

from __future__ import annotations

import heapq
from collections import deque

MS = 1_000_000
SECOND = 1_000 * MS


class WorkQueue:
    """Queue, dirty and processing sets, and a heap of delayed keys."""

    __slots__ = ("_delayed", "_dirty", "_processing", "_queue", "_seq", "_waiting")

    def __init__(self) -> None:
        self._queue: deque[str] = deque()
        self._dirty: dict[str, None] = {}
        self._processing: dict[str, None] = {}
        self._delayed: list[tuple[int, int, str]] = []
        self._waiting: dict[str, int] = {}
        self._seq = 0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, key: str) -> None:
        """Ask for `key` to be processed."""
        if key in self._dirty:
            return
        self._dirty[key] = None
        if key not in self._processing:
            self._queue.append(key)

    def add_after(self, key: str, ready_at: int, now: int) -> None:
        """Ask for `key` at `ready_at`; an earlier time already set stays."""
        if ready_at <= now:
            self.add(key)
            return
        known = self._waiting.get(key)
        if known is not None and known <= ready_at:
            return
        self._waiting[key] = ready_at
        self._seq += 1
        heapq.heappush(self._delayed, (ready_at, self._seq, key))

    def release(self, now: int) -> int | None:
        """Move delayed keys that are due into the queue; when the next one is due, None if none waits."""
        delayed = self._delayed
        while delayed:
            ready_at, _, key = delayed[0]
            if self._waiting.get(key) != ready_at:
                heapq.heappop(delayed)
                continue
            if ready_at > now:
                return ready_at
            heapq.heappop(delayed)
            del self._waiting[key]
            self.add(key)
        return None

    def get(self) -> str | None:
        """Take the next key; call `done` when it has been processed. None when the queue is empty."""
        if not self._queue:
            return None
        key = self._queue.popleft()
        self._processing[key] = None
        del self._dirty[key]
        return key

    def done(self, key: str) -> None:
        """Processing of `key` ended; if it was added meanwhile it is queued again."""
        self._processing.pop(key, None)
        if key in self._dirty:
            self._queue.append(key)


class RateLimiter:
    """When a failed key may run again: per-key exponential, and a token bucket shared by all.

    Defaults of controllers: 5 ms doubled per failure up to 1000 s; 10 tokens per second, bursts of
    100.
    """

    __slots__ = ("_base", "_burst", "_failures", "_interval", "_max", "_spent_until")

    def __init__(
        self, *, base_ns: int = 5 * MS, max_ns: int = 1000 * SECOND, qps: int = 10, burst: int = 100
    ) -> None:
        self._base = base_ns
        self._max = max_ns
        self._interval = SECOND // qps
        self._burst = burst
        self._failures: dict[str, int] = {}
        self._spent_until = 0

    def when(self, key: str, now: int) -> int:
        """Count one more failure of `key`; the time from which it may run again."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        backoff = self._max if failures > 40 else min(self._base << failures, self._max)
        # The bucket is full when `_spent_until` lies a whole burst in the past; each call takes one token.
        self._spent_until = (
            max(self._spent_until, now - self._burst * self._interval) + self._interval
        )
        return max(now + backoff, self._spent_until, now)

    def failures(self, key: str) -> int:
        """How often `key` failed since it was last forgotten."""
        return self._failures.get(key, 0)

    def forget(self, key: str) -> None:
        """The key succeeded: start its failures from none."""
        self._failures.pop(key, None)
