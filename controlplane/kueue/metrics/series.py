"""The names, labels and buckets of Kueue's metrics. Durations are kept in nanoseconds."""

from __future__ import annotations

from typing import Final

from controlplane.metrics.family import NANOSECONDS, Kind, Series


def standalone() -> str:
    """The role of a process without leader election between replicas, which every series bears."""
    return "standalone"


_MILLISECOND: Final = NANOSECONDS // 1000
_USUAL: Final = tuple(
    each * _MILLISECOND for each in (5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000)
)
_WAITS: Final = (
    NANOSECONDS,
    *(NANOSECONDS * 5 // 2 * 2**power for power in range(13)),
)
_CREATION: Final = tuple(10 * _MILLISECOND * 2**power for power in range(11))


def _series(kind: Kind, name: str, labels: str, text: str, bounds: tuple[int, ...] = ()) -> Series:
    unit = NANOSECONDS if bounds else 1
    return Series(f"kueue_{name}", kind, text, (*labels.split(), "replica_role"), bounds, unit)


def _counter(name: str, labels: str, text: str) -> Series:
    return _series("counter", name, labels, text)


def _gauge(name: str, labels: str, text: str) -> Series:
    return _series("gauge", name, labels, text)


def _times(name: str, labels: str, text: str, bounds: tuple[int, ...] = _WAITS) -> Series:
    return _series("histogram", name, labels, text, bounds)


_QUEUE: Final = "cluster_queue priority_class"
_LOCAL: Final = "name namespace priority_class"
_CAUSE: Final = "reason underlying_cause priority_class"
_PAIR: Final = "cohort cluster_queue flavor resource"

# -- events ----------------------------------------------------------------------------------------

ATTEMPTS: Final = _counter("admission_attempts_total", "result", "Scheduling cycles by result.")
ATTEMPT_TIMES: Final = _times(
    "admission_attempt_duration_seconds", "result", "Length of scheduling cycles.", _USUAL
)
RECOMPUTATIONS: Final = _counter(
    "preemption_target_recomputations_total",
    "cluster_queue result",
    "Overlapping preemption targets that were searched for anew in the same cycle.",
)
SKIPS: Final = _gauge(
    "admission_cycle_preemption_skips",
    "cluster_queue",
    "Preemptions of the last cycle that gave way to those of other queues.",
)
PREEMPTED: Final = _counter(
    "preempted_workloads_total",
    "preempting_cluster_queue reason",
    "Workloads preempted for a queue.",
)
EVICTED_ONCE: Final = _counter(
    "evicted_workloads_once_total",
    f"cluster_queue {_CAUSE}",
    "Workloads that were evicted for a reason for the first time.",
)
EVICTION_TIMES: Final = _times(
    "workload_eviction_latency_seconds",
    "cluster_queue reason",
    "Time between an eviction and the release of the quota.",
)
READY_TO_EVICTED: Final = _times(
    "pods_ready_to_evicted_time_seconds",
    "cluster_queue reason underlying_cause",
    "Time between readiness of all pods and the eviction.",
)
CREATION_TIMES: Final = _times(
    "workload_creation_latency_seconds",
    "job_kind",
    "Time between a job's creation and that of its workload.",
    _CREATION,
)
COHORT_ADMITTED: Final = _counter(
    "cohort_subtree_admitted_workloads_total",
    "cohort priority_class",
    "Workloads admitted in a cohort and below.",
)

EVICTED: Final = _counter(
    "evicted_workloads_total", f"cluster_queue {_CAUSE}", "Evictions of a queue."
)
LOCAL_EVICTED: Final = _counter(
    "local_queue_evicted_workloads_total",
    f"name namespace {_CAUSE}",
    "Evictions of a local queue.",
)


def _both(make: str, name: str, text: str) -> tuple[Series, Series]:
    """One metric of cluster queues and the same of local queues."""
    build = _counter if make == "counter" else _times
    return build(name, _QUEUE, f"{text}, by cluster queue."), build(
        f"local_queue_{name}", _LOCAL, f"{text}, by local queue."
    )


RESERVED: Final = _both("counter", "quota_reserved_workloads_total", "Workloads that got quota")
RESERVED_WAITS: Final = _both("times", "quota_reserved_wait_time_seconds", "Time until the quota")
ADMITTED: Final = _both("counter", "admitted_workloads_total", "Workloads admitted")
ADMITTED_WAITS: Final = _both("times", "admission_wait_time_seconds", "Time until the admission")
CHECK_WAITS: Final = _both(
    "times", "admission_checks_wait_time_seconds", "Time between quota and admission"
)
READY_WAITS: Final = _both("times", "ready_wait_time_seconds", "Time until all pods were ready")
ADMITTED_READY_WAITS: Final = _both(
    "times", "admitted_until_ready_wait_time_seconds", "Time between admission and readiness"
)
FINISHED_TOTAL: Final = _both("counter", "finished_workloads_total", "Workloads finished")
EXECUTION_TIMES: Final = _both("times", "execution_time_seconds", "Time that workloads ran")

EVENTS: Final = (
    ATTEMPTS, ATTEMPT_TIMES, RECOMPUTATIONS, SKIPS, PREEMPTED, EVICTED_ONCE, EVICTION_TIMES,
    READY_TO_EVICTED, CREATION_TIMES, COHORT_ADMITTED, EVICTED, LOCAL_EVICTED, *RESERVED,
    *RESERVED_WAITS, *ADMITTED, *ADMITTED_WAITS, *CHECK_WAITS, *READY_WAITS,
    *ADMITTED_READY_WAITS, *FINISHED_TOTAL, *EXECUTION_TIMES,
)  # fmt: skip

# -- what is there ---------------------------------------------------------------------------------

PENDING: Final = _gauge("pending_workloads", "cluster_queue status", "Pending workloads.")
HASHES: Final = _gauge(
    "pending_scheduling_hashes", "cluster_queue status", "Different shapes of pending workloads."
)
FINISHED: Final = _gauge("finished_workloads", "cluster_queue", "Finished workloads that exist.")
STATUS: Final = _gauge("cluster_queue_status", "cluster_queue status", "1 for the queue's status.")
RESERVING: Final = _gauge(
    "reserving_active_workloads", "cluster_queue", "Workloads with quota in a queue."
)
ACTIVE: Final = _gauge("admitted_active_workloads", "cluster_queue", "Admitted active workloads.")
UNADMITTED: Final = _gauge(
    "unadmitted_workloads",
    "cluster_queue reason underlying_cause",
    "Workloads that are not admitted, by reason.",
)
QUEUE_INFO: Final = _gauge(
    "cluster_queue_info", "cluster_queue parent_cohort root_cohort", "Place in the tree; always 1."
)
COHORT_INFO: Final = _gauge(
    "cohort_info", "cohort parent_cohort root_cohort", "Place in the tree; always 1."
)
COHORT_SHARE: Final = _gauge("cohort_weighted_share", "cohort", "Dominant share by weight.")
COHORT_QUOTA: Final = _gauge(
    "cohort_subtree_quota", "cohort flavor resource", "Quota of a cohort and what is below."
)
COHORT_RESERVED: Final = _gauge(
    "cohort_subtree_resource_reservations",
    "cohort flavor resource",
    "Quota reserved in a cohort and below.",
)
COHORT_ACTIVE: Final = _gauge(
    "cohort_subtree_admitted_active_workloads",
    "cohort",
    "Admitted active workloads of a cohort and below.",
)
QUEUE_NOMINAL: Final = _gauge("cluster_queue_nominal_quota", _PAIR, "Nominal quota.")
QUEUE_BORROWING: Final = _gauge("cluster_queue_borrowing_limit", _PAIR, "Borrowing limit.")
QUEUE_LENDING: Final = _gauge("cluster_queue_lending_limit", _PAIR, "Lending limit.")
QUEUE_RESERVED: Final = _gauge("cluster_queue_resource_reservation", _PAIR, "Reserved quota.")
QUEUE_USED: Final = _gauge("cluster_queue_resource_usage", _PAIR, "Quota of admitted workloads.")
QUEUE_PENDING: Final = _gauge(
    "cluster_queue_resource_pending", "cluster_queue resource", "Requests of pending workloads."
)
QUEUE_SHARE: Final = _gauge(
    "cluster_queue_weighted_share", "cluster_queue cohort", "Dominant share by weight."
)
LOCAL_PENDING: Final = _gauge(
    "local_queue_pending_workloads", "name namespace status", "Pending workloads."
)
LOCAL_FINISHED: Final = _gauge(
    "local_queue_finished_workloads", "name namespace", "Finished workloads that exist."
)
LOCAL_STATUS: Final = _gauge(
    "local_queue_status", "name namespace active", "1 for the status of condition Active."
)
LOCAL_RESERVING: Final = _gauge(
    "local_queue_reserving_active_workloads", "name namespace", "Workloads with quota."
)
LOCAL_ACTIVE: Final = _gauge(
    "local_queue_admitted_active_workloads", "name namespace", "Admitted active workloads."
)
LOCAL_UNADMITTED: Final = _gauge(
    "local_queue_unadmitted_workloads",
    "name namespace cluster_queue reason underlying_cause",
    "Workloads that are not admitted, by reason.",
)
LOCAL_RESERVED: Final = _gauge(
    "local_queue_resource_reservation", "name namespace flavor resource", "Reserved quota."
)
LOCAL_USED: Final = _gauge(
    "local_queue_resource_usage",
    "name namespace flavor resource",
    "Quota of admitted workloads.",
)
