"""Measurements on the wall clock: the time at which each pod was seen bound, and the attempts' durations."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.api.object import Object

PERCENTILES = (50, 90, 95, 99)
SAMPLE_SECONDS = 1.0
SHORT_SAMPLE_SECONDS = 0.1
FEW_SAMPLES = 5


def buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Upper bounds of an exponential histogram."""
    return tuple(start * factor**number for number in range(count))


HISTOGRAMS = {
    "scheduler_scheduling_attempt_duration_seconds": buckets(0.001, 2, 15),
    "scheduler_scheduling_algorithm_duration_seconds": buckets(0.001, 2, 15),
    "scheduler_pod_scheduling_sli_duration_seconds": buckets(0.01, 2, 20),
}
"""Upper bounds in seconds, as kube-scheduler has them; ours begin four halvings lower, because it is faster."""


class Histogram:
    """Counts per bucket, sum and number of values (seconds)."""

    def __init__(self, bounds: Sequence[float]) -> None:
        finer = [bounds[0] / 2**step for step in (4, 3, 2, 1)]
        self.bounds = (*finer, *bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0
        self.count = 0

    def observe(self, value: float) -> None:
        """Add one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value
        self.count += 1

    @property
    def average(self) -> float:
        """Mean value, 0 without any."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """By linear interpolation within a bucket, as Prometheus does it."""
        rank = self.count * percent / 100
        seen = 0
        for at, count in enumerate(self.counts):
            if count and seen + count >= rank:
                if at == len(self.bounds):
                    return self.bounds[-1]
                low = self.bounds[at - 1] if at else 0.0
                return low + (self.bounds[at] - low) * (rank - seen) / count
            seen += count
        return 0.0

    def to_json(self) -> dict[str, float]:
        """Milliseconds, under upstream's names."""
        return {
            "Average": 1000 * self.average,
            **{f"Perc{percent}": 1000 * self.percentile(percent) for percent in PERCENTILES},
        }


@frozen
class Throughput:
    """Pods per second while pods were measured. `sample_s` is the width of the samples."""

    pods: int
    seconds: float
    average: float
    percentiles: dict[int, float]
    sample_s: float


class Collection:
    """One stretch of measuring: the pods of some namespaces (and labels), from start to stop."""

    def __init__(
        self, name: str, namespaces: Sequence[str], selects: Callable[[Object], bool] | None
    ) -> None:
        self.name = name
        self._namespaces = dict.fromkeys(namespaces)
        self._selects = selects
        self._created: dict[str, float] = {}
        self._began: dict[str, float] = {}
        self.bound_at: list[float] = []
        self.started = time.perf_counter()
        self.stopped = 0.0
        self.histograms: dict[tuple[str, str], Histogram] = {}

    def wants(self, obj: Object) -> bool:
        """Return whether the pod is one of those measured."""
        return obj.namespace in self._namespaces and (self._selects is None or self._selects(obj))

    def created(self, obj: Object) -> None:
        """The pod was seen for the first time."""
        self._created[obj.uid] = time.perf_counter()

    def bound(self, obj: Object) -> None:
        """The pod was seen to have a node."""
        now = time.perf_counter()
        self.bound_at.append(now)
        began = self._created.pop(obj.uid, None)
        if began is not None:
            self._observe("scheduler_pod_scheduling_sli_duration_seconds", "", now - began)

    def stop(self) -> None:
        """Measure no more."""
        self.stopped = time.perf_counter()

    def _observe(self, metric: str, result: str, value: float) -> None:
        key = (metric, result)
        found = self.histograms.get(key)
        if found is None:
            found = self.histograms[key] = Histogram(HISTOGRAMS[metric])
        found.observe(value)

    # The scheduler's observer, see `controlplane.scheduler.loops.shared.Observer`.

    def attempt_started(self, uid: str) -> None:
        """A pod was popped."""
        self._began[uid] = time.perf_counter()

    def algorithm_ended(self, uid: str) -> None:
        """A node was found, or none."""
        began = self._began.get(uid)
        if began is not None:
            metric = "scheduler_scheduling_algorithm_duration_seconds"
            self._observe(metric, "", time.perf_counter() - began)

    def attempt_ended(self, uid: str, result: str) -> None:
        """The attempt is over."""
        began = self._began.pop(uid, None)
        if began is not None:
            metric = "scheduler_scheduling_attempt_duration_seconds"
            self._observe(metric, result, time.perf_counter() - began)

    def throughput(self) -> Throughput:
        """Average over the whole time, percentiles over samples (of a second, or of a tenth in short runs)."""
        pods = len(self.bound_at)
        if not pods:
            return Throughput(0, 0.0, 0.0, dict.fromkeys(PERCENTILES, 0.0), SAMPLE_SECONDS)
        seconds = max(self.bound_at[-1] - self.started, 1e-9)
        width = SAMPLE_SECONDS if seconds >= FEW_SAMPLES * SAMPLE_SECONDS else SHORT_SAMPLE_SECONDS
        samples = _samples(self.bound_at, self.started, width)
        return Throughput(
            pods,
            seconds,
            pods / seconds,
            {percent: _nearest(samples, percent) for percent in PERCENTILES},
            width,
        )


def _samples(times: Sequence[float], start: float, width: float) -> list[float]:
    """Pods per second in consecutive stretches of time; like upstream's, those without a pod are left out."""
    counts: dict[int, int] = {}
    for at in times:
        number = int((at - start) / width)
        counts[number] = counts.get(number, 0) + 1
    if len(counts) > 1:
        # The last stretch is not a whole one.
        del counts[max(counts)]
    return sorted(count / width for count in counts.values())


def _nearest(values: Sequence[float], percent: int) -> float:
    """Upstream's percentile of sorted values: the one at ceil(n * percent / 100)."""
    return values[max(-(-len(values) * percent // 100), 1) - 1]


class NoCollection:
    """Stands for a collection while nothing is measured."""

    def attempt_started(self, uid: str) -> None:
        """Not measured."""

    def algorithm_ended(self, uid: str) -> None:
        """Not measured."""

    def attempt_ended(self, uid: str, result: str) -> None:
        """Not measured."""


class Switch:
    """The observer the scheduler gets: passes everything on to the collection that is running now."""

    def __init__(self) -> None:
        self.target: Any = NoCollection()

    def reset(self) -> None:
        """Nothing is measured any more."""
        self.target = NoCollection()

    def attempt_started(self, uid: str) -> None:
        """Passed on."""
        self.target.attempt_started(uid)

    def algorithm_ended(self, uid: str) -> None:
        """Passed on."""
        self.target.algorithm_ended(uid)

    def attempt_ended(self, uid: str, result: str) -> None:
        """Passed on."""
        self.target.attempt_ended(uid, result)
