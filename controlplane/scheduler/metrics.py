"""Metrics of the scheduler, under upstream's names. Upstream: pkg/scheduler/metrics/metrics.go.

Durations are of virtual time, in which thinking costs nothing: an attempt lasts as long as its
waits and requests do. Left out are the series per extension point, plugin and hint, which would
always say zero. Those of dynamic resources are in dra/metrics.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.metrics.family import NANOSECONDS, Series
from controlplane.metrics.histogram import Histogram, exponential
from controlplane.scheduler.plugins.default_preemption import preemption_plugin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.metrics.family import Family
    from controlplane.scheduler.cycle.attempt import Attempt
    from controlplane.scheduler.podgroups.model import GroupResult
    from controlplane.scheduler.scheduler import Scheduler

__all__ = ["SchedulingMetrics", "families"]

_MS: Final = 1_000_000
_ATTEMPTS: Final = Series(
    "scheduler_schedule_attempts_total",
    "counter",
    "Attempts to schedule a pod, by result.",
    ("result", "profile"),
)
_DURATION: Final = Series(
    "scheduler_scheduling_attempt_duration_seconds",
    "histogram",
    "Virtual time from the start of an attempt to its end, binding included.",
    ("result", "profile"),
    exponential(_MS, 2, 15),
    NANOSECONDS,
)
_ALGORITHM: Final = Series(
    "scheduler_scheduling_algorithm_duration_seconds",
    "histogram",
    "Virtual time that it took to find a node.",
    (),
    exponential(_MS, 2, 15),
    NANOSECONDS,
)
_SLI: Final = Series(
    "scheduler_pod_scheduling_sli_duration_seconds",
    "histogram",
    "Virtual time from a pod's first entry into the queue to its binding, by how many attempts it took.",
    ("attempts",),
    exponential(10 * _MS, 2, 20),
    NANOSECONDS,
)
_POD_ATTEMPTS: Final = Series(
    "scheduler_pod_scheduling_attempts",
    "histogram",
    "How many attempts it took to bind a pod.",
    (),
    exponential(1, 2, 5),
)
_AFTER_FLUSH: Final = Series(
    "scheduler_pod_scheduled_after_flush_total",
    "counter",
    "Pods bound after they had waited so long that they were tried again without an event.",
)
_PERMIT: Final = Series(
    "scheduler_permit_wait_duration_seconds",
    "histogram",
    "Virtual time that pods waited in Permit, by the code that ended it.",
    ("result",),
    exponential(_MS, 2, 15),
    NANOSECONDS,
)
_PREEMPTIONS: Final = Series(
    "scheduler_preemption_attempts_total",
    "counter",
    "How often victims were looked for.",
)
_VICTIMS: Final = Series(
    "scheduler_preemption_victims",
    "histogram",
    "How many victims a preemption chose.",
    (),
    exponential(1, 2, 7),
)
_PENDING: Final = Series("scheduler_pending_pods", "gauge", "Pods that wait, by queue.", ("queue",))
_INCOMING: Final = Series(
    "scheduler_queue_incoming_pods_total",
    "counter",
    "Pods that entered a queue, by queue and by the event that brought them.",
    ("queue", "event"),
)
_UNSCHEDULABLE: Final = Series(
    "scheduler_unschedulable_pods",
    "gauge",
    "Pods that a plugin holds back.",
    ("plugin", "profile"),
)
_INFLIGHT: Final = Series(
    "scheduler_inflight_events",
    "gauge",
    "Events kept for pods in flight, and under PodPopped those pods.",
    ("event",),
)
_GROUP_ATTEMPTS: Final = Series(
    "scheduler_podgroup_schedule_attempts_total",
    "counter",
    "Attempts to schedule a pod group, by result.",
    ("result", "profile"),
)
_GROUP_DURATION: Final = Series(
    "scheduler_podgroup_scheduling_attempt_duration_seconds",
    "histogram",
    "Virtual time from the start of a pod group's attempt until its members were handed over.",
    ("result", "profile"),
    exponential(_MS, 2, 15),
    NANOSECONDS,
)
_GROUP_ALGORITHM: Final = Series(
    "scheduler_podgroup_scheduling_algorithm_duration_seconds",
    "histogram",
    "Virtual time that it took to try a pod group.",
    (),
    exponential(_MS, 2, 15),
    NANOSECONDS,
)
_BATCH_ATTEMPTS: Final = Series(
    "scheduler_batch_attempts_total",
    "counter",
    "Attempts that asked for the node of an equal pod's cycle, by what came of it.",
    ("profile", "result"),
)
_BATCH_FLUSHED: Final = Series(
    "scheduler_batch_cache_flushed_total",
    "counter",
    "Kept results that could not be used, by reason.",
    ("profile", "reason"),
)
_CACHE: Final = Series(
    "scheduler_cache_size", "gauge", "Nodes, pods and assumed pods in the cache.", ("type",)
)
MANY_ATTEMPTS: Final = 15
"""From here on the label says only that there were at least this number."""

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"
WAITING_ON_PREEMPTION: Final = "waiting_on_preemption"


class GroupMetrics:
    """Counts attempts of pod groups."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, ...], Histogram] = {}
        self.algorithm = _GROUP_ALGORITHM.histogram()

    def tried(self, took: int) -> None:
        """A group was tried."""
        self.algorithm.observe(took)

    def ended(self, result: GroupResult, profile: str, took: int) -> None:
        """An attempt has ended."""
        verdict = SCHEDULED
        if result.status is not None:
            verdict = WAITING_ON_PREEMPTION if result.awaits_preemption else UNSCHEDULABLE
            verdict = verdict if result.status.is_rejected else ERROR
        _of(self.attempts, (verdict, profile), _GROUP_DURATION).observe(took)

    def families(self) -> Iterator[Family]:
        """A snapshot of these numbers."""
        yield _GROUP_ATTEMPTS.family({key: each.count for key, each in self.attempts.items()})
        yield _GROUP_DURATION.family(self.attempts)
        yield _GROUP_ALGORITHM.single(self.algorithm)


class SchedulingMetrics:
    """Counts attempts. Times are nanoseconds; gauges are read off the queue and the cache when asked for."""

    def __init__(self) -> None:
        self.attempts: dict[tuple[str, ...], Histogram] = {}
        self.sli: dict[tuple[str, ...], Histogram] = {}
        self.permits: dict[tuple[str, ...], Histogram] = {}
        self.algorithm = _ALGORITHM.histogram()
        self.pod_attempts = _POD_ATTEMPTS.histogram()
        self.victims = _VICTIMS.histogram()
        self.after_flush = 0
        self.groups = GroupMetrics()

    def ended(self, attempt: Attempt, result: str, now: int) -> None:
        """An attempt has ended: scheduled, unschedulable or error."""
        key = (result, attempt.framework.profile)
        _of(self.attempts, key, _DURATION).observe(now - attempt.started)
        if result != SCHEDULED:
            return
        info = attempt.info
        self.pod_attempts.observe(info.attempts)
        if info.was_flushed_from_unschedulable:
            self.after_flush += 1
        if info.initial_attempt_timestamp is not None:
            many = info.attempts >= MANY_ATTEMPTS
            label = f"{MANY_ATTEMPTS}+" if many else str(info.attempts)
            _of(self.sli, (label,), _SLI).observe(now - info.initial_attempt_timestamp)

    def permitted(self, result: str, waited: int) -> None:
        """A pod waits in Permit no longer."""
        _of(self.permits, (result,), _PERMIT).observe(waited)


def families(core: Scheduler, metrics: SchedulingMetrics) -> Iterator[Family]:
    """A snapshot of a scheduler's numbers."""
    queue, cache = core.queue, core.cache
    counted = queue.metrics
    yield _ATTEMPTS.family({key: each.count for key, each in metrics.attempts.items()})
    yield _DURATION.family(metrics.attempts)
    yield _ALGORITHM.single(metrics.algorithm)
    yield _SLI.family(metrics.sli)
    yield _POD_ATTEMPTS.single(metrics.pod_attempts)
    yield _AFTER_FLUSH.single(metrics.after_flush)
    yield _PERMIT.family(metrics.permits)
    yield _PREEMPTIONS.single(_preemptions(core))
    yield _VICTIMS.single(metrics.victims)
    yield _PENDING.family({(name,): count for name, count in queue.pending_pods().items()})
    yield _INCOMING.family(counted.queue_incoming_pods)
    yield _UNSCHEDULABLE.family(counted.unschedulable_pods)
    yield _INFLIGHT.family({(label,): count for label, count in counted.inflight_events.items()})
    batches = {profile: each.batch for profile, each in core.frameworks.items()}
    yield _BATCH_ATTEMPTS.family(
        {(name, what): n for name, b in batches.items() for what, n in b.attempts.items()}
    )
    yield _BATCH_FLUSHED.family(
        {(name, why): n for name, b in batches.items() for why, n in b.flushes.items()}
    )
    if core.schedules_groups:
        yield from metrics.groups.families()
    yield from core.handle.dra.metrics.families()
    sizes = {"nodes": cache.node_count, "pods": cache.pod_count}
    sizes["assumed_pods"] = cache.assumed_count
    yield _CACHE.family({(what,): size for what, size in sizes.items()})


def _preemptions(core: Scheduler) -> int:
    found = (preemption_plugin(each.all_plugins) for each in core.frameworks.values())
    return sum(plugin.attempts for plugin in found if plugin is not None)


def _of(
    histograms: dict[tuple[str, ...], Histogram], key: tuple[str, ...], series: Series
) -> Histogram:
    found = histograms.get(key)
    if found is None:
        found = histograms[key] = series.histogram()
    return found
