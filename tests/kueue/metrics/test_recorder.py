"""Kueue's counters and gauges."""

from __future__ import annotations

import math

from controlplane.api.times import SECOND
from controlplane.kueue.gates import Gates
from controlplane.kueue.metrics.gauges import Gauges
from controlplane.kueue.metrics.options import MetricsOptions
from controlplane.kueue.metrics.recorder import ControllerMetrics, Recorder, SchedulerMetrics
from controlplane.kueue.queues.cluster_queue import Rules
from controlplane.kueue.queues.manager import ManagerOptions, QueueManager
from controlplane.kueue.workload.status_evict import Eviction
from controlplane.metrics.exposition import text_of
from tests.kueue.objects import START, admitted, cache, cluster_queue, local_queue, workload
from tests.kueue.surroundings import Quiet, store

GATES = Gates()


def shown(families) -> dict[str, object]:
    return {
        f"{family.name} {' '.join(value for name, value in sample.labels if name != 'replica_role')}": sample.value
        for family in families
        for sample in family.samples
    }


def recorder(**options):
    found = cache([cluster_queue("queue", {"default/cpu": 4}, "teams")])
    found.add_local_queue(local_queue("user", "queue"))
    return Recorder(found, GATES, MetricsOptions(**options))


def test_an_admission_counts_for_queue_local_queue_and_cohort():
    made = recorder()
    SchedulerMetrics(made).admitted(admitted(workload("one"), "queue"), "queue", 3 * SECOND)
    found = shown(made.families())
    assert found["kueue_admitted_workloads_total queue "] == 1
    assert found["kueue_local_queue_admitted_workloads_total user default "] == 1
    assert found["kueue_cohort_subtree_admitted_workloads_total teams "] == 1
    waits = found["kueue_admission_wait_time_seconds queue "]
    assert (waits.count, waits.sum) == (1, 3)


def test_local_queues_can_be_left_out():
    made = recorder(local_queues=False)
    SchedulerMetrics(made).admitted(admitted(workload("one"), "queue"), "queue", 0)
    assert not [name for name in shown(made.families()) if "local_queue" in name]


def test_the_first_eviction_counts_twice():
    made = recorder()
    tree = admitted(workload("one"), "queue")
    for first in (True, False):
        made.evicted(tree, Eviction("queue", "Preempted", "", "text", first))
    found = shown(made.families())
    assert found["kueue_evicted_workloads_total queue  Preempted "] == 2
    assert found["kueue_evicted_workloads_once_total queue  Preempted "] == 1


def test_series_of_a_deleted_queue_go():
    made = recorder()
    tree = admitted(workload("one"), "queue")
    told = ControllerMetrics(made)
    told.finished(tree)
    told.pending_after_eviction("other", "Preempted", SECOND)
    told.cluster_queue_gone("queue")
    told.local_queue_gone("default", "user")
    assert [family.name for family in made.families()] == [
        "kueue_workload_eviction_latency_seconds"
    ]


def gauges(**options):
    objects = store(LocalQueue=[local_queue("user", "queue")], Workload=[workload("one")])
    found = cache([cluster_queue("queue", {"default/cpu": (4, None)}, "teams")])
    manager = QueueManager(
        ManagerOptions(Rules(GATES)), objects, Quiet(), lambda: START, found.cluster_queue_active
    )
    manager.add_cluster_queue(cluster_queue("queue", {"default/cpu": 4}, "teams"))
    manager.add_local_queue(local_queue("user", "queue"))
    found.add_local_queue(local_queue("user", "queue"))
    return Gauges(found, manager, objects, GATES, MetricsOptions(**options))


def test_gauges_of_queues():
    found = shown(gauges(resources=True).families())
    assert found["kueue_pending_workloads queue active"] == 1
    assert found["kueue_cluster_queue_status queue active"] == 1
    assert found["kueue_cluster_queue_nominal_quota queue teams default cpu"] == 4
    assert found["kueue_cluster_queue_resource_pending queue cpu"] == 1
    assert math.isinf(found["kueue_cluster_queue_borrowing_limit queue teams default cpu"])
    assert found["kueue_unadmitted_workloads queue NoReservation PendingEvaluation"] == 1
    assert "kueue_reserving_active_workloads queue" not in found


def test_infinity_has_a_text():
    text = text_of(gauges(resources=True).families())
    assert 'resource="cpu"} +Inf' in text
    assert "kueue_cluster_queue_nominal_quota" not in text_of(gauges().families())
