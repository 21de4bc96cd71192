"""The metrics of a work queue. Upstream: client-go util/workqueue/metrics.go.

Durations are kept in ns; the names under which `read` answers are upstream's, durations in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.metrics.histogram import Histogram, exponential

if TYPE_CHECKING:
    from collections.abc import Callable

BOUNDS_NS = exponential(10, 10, 10)
"""Upper bounds of a histogram's buckets: 10 ns to 100 s. Upstream: ExponentialBuckets(10e-9, 10, 12)."""
NS_PER_SECOND = 1_000_000_000


class QueueMetrics:
    """Hooks that a `WorkQueue` calls. `clock` answers the present time (ns)."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._added: dict[str, int] = {}
        self._started: dict[str, int] = {}
        self.depth = 0
        self.adds = 0
        self.retries = 0
        self.waits = Histogram(BOUNDS_NS)
        self.works = Histogram(BOUNDS_NS)

    def add(self, key: str) -> None:
        """A key was asked for that was not asked for yet."""
        self.adds += 1
        self.depth += 1
        self._added.setdefault(key, self._clock())

    def get(self, key: str) -> None:
        """A worker took a key."""
        now = self._clock()
        self.depth -= 1
        self._started[key] = now
        added = self._added.pop(key, None)
        if added is not None:
            self.waits.observe(now - added)

    def done(self, key: str) -> None:
        """A worker has finished with a key."""
        started = self._started.pop(key, None)
        if started is not None:
            self.works.observe(self._clock() - started)

    def retry(self) -> None:
        """A key was asked for later."""
        self.retries += 1

    def unfinished_ns(self) -> int:
        """Time spent so far on keys that are being processed, all together."""
        now = self._clock()
        return sum(now - started for started in self._started.values())

    def longest_running_ns(self) -> int:
        """Time spent so far on the key that is being processed for the longest time."""
        now = self._clock()
        return max((now - started for started in self._started.values()), default=0)

    def read(self) -> dict[str, float]:
        """All figures under upstream's names."""
        return {
            "workqueue_depth": self.depth,
            "workqueue_adds_total": self.adds,
            "workqueue_retries_total": self.retries,
            "workqueue_queue_duration_seconds_count": self.waits.count,
            "workqueue_queue_duration_seconds_sum": self.waits.sum / NS_PER_SECOND,
            "workqueue_work_duration_seconds_count": self.works.count,
            "workqueue_work_duration_seconds_sum": self.works.sum / NS_PER_SECOND,
            "workqueue_unfinished_work_seconds": self.unfinished_ns() / NS_PER_SECOND,
            "workqueue_longest_running_processor_seconds": self.longest_running_ns()
            / NS_PER_SECOND,
        }
