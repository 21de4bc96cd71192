"""Queue manager: queues that come, move and go, and the second pass."""

from __future__ import annotations

import pytest

from controlplane.api.quantity import parse
from controlplane.api.times import SECOND
from controlplane.kueue.gates import Gates
from controlplane.kueue.queues.manager import QueueError
from controlplane.kueue.queues.usage import FairSharing, Resources
from tests.golden.kueue_queues import Queues
from tests.kueue.objects import START, admitted, cluster_queue, cohort, local_queue, workload

SHARED = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def queues(*names: str, sharing: FairSharing | None = None, **spec) -> Queues:
    world = {
        "clusterQueues": [cluster_queue(name, {"default/cpu": 1}, **spec) for name in names],
        "localQueues": [local_queue("user", names[0])],
        "namespaces": [{"metadata": {"name": "default"}}],
    }
    return Queues(world, Gates(), sharing=sharing)


def active(world: Queues, name: str) -> list[str]:
    queue = world.manager.cluster_queue(name)
    return [] if queue is None else [each.key for each in queue.workloads.active.sorted()]


def test_a_local_queue_takes_its_workloads_to_another_cluster_queue():
    world = queues("one", "two")
    world.manager.add_or_update(workload("a"))
    world.manager.update_local_queue(local_queue("user", "two"))
    assert (active(world, "one"), active(world, "two")) == ([], ["default/a"])
    assert world.manager.cluster_queue_for(workload("a")) == ("two", True)


def test_a_local_queue_without_its_cluster_queue_keeps_its_workloads():
    world = queues("one")
    world.manager.add_or_update(workload("a"))
    world.manager.delete_cluster_queue(cluster_queue("one", {}))
    assert world.manager.pending_workloads("default/user") == 1
    assert world.manager.cluster_queue_for(workload("a")) == ("one", False)
    world.objects.stored["LocalQueue"]["default/user"] = local_queue("user", "one")
    world.manager.add_cluster_queue(cluster_queue("one", {}))
    assert active(world, "one") == ["default/a"]


def test_a_local_queue_that_goes_takes_its_workloads_along():
    world = queues("one")
    world.manager.add_or_update(workload("a"))
    world.manager.delete_local_queue(local_queue("user", "one"))
    assert active(world, "one") == []
    assert not world.manager.has_local_queue("default/user")


def test_a_new_local_queue_adopts_what_waits_for_it():
    world = queues("one")
    finished = workload("done", "late")
    finished["status"] = {"conditions": [{"type": "Finished", "status": "True"}]}
    for each in (workload("a", "late"), workload("other"), finished):
        world.objects.stored["Workload"][f"default/{each['metadata']['name']}"] = each
    world.manager.add_local_queue(local_queue("late", "one"))
    assert active(world, "one") == ["default/a"]
    found = world.manager.local_queue("default/late")
    assert found is not None and list(found.finished) == ["default/done"]


def test_what_is_known_is_not_added_and_what_is_not_known_is_not_updated():
    manager = queues("one").manager
    with pytest.raises(QueueError, match="already exists"):
        manager.add_cluster_queue(cluster_queue("one", {}))
    with pytest.raises(QueueError, match="already exists"):
        manager.add_local_queue(local_queue("user", "one"))
    with pytest.raises(QueueError):
        manager.update_cluster_queue(cluster_queue("two", {}), spec_changed=True)
    with pytest.raises(QueueError):
        manager.update_local_queue(local_queue("other", "one"))


def test_a_cohort_asks_for_a_flush_of_its_root():
    world = queues("one", cohort="team")
    world.manager.add_or_update_cohort(cohort("team", parent="all"))
    assert [each.cohort for each in world.around.flushes] == ["all"]


def test_a_cycle_of_cohorts_asks_for_none():
    world = queues("one", cohort="team")
    world.manager.add_or_update_cohort(cohort("team", parent="team"))
    assert not world.around.flushes


# -- fair sharing ----------------------------------------------------------------------------------


def test_usage_that_changed_orders_the_queue_anew():
    world = queues("one", sharing=FairSharing(3600), **SHARED)
    world.manager.add_local_queue(local_queue("other", "one"))
    for name, queue, age in (("a", "user", 20), ("b", "other", 10)):
        world.manager.add_or_update(workload(name, queue, age=age))
    assert active(world, "one") == ["default/a", "default/b"]
    world.manager.ledger.push_penalty("default/user", "default/x", cpu("1"), START)
    world.manager.reorder("one")
    assert active(world, "one") == ["default/b", "default/a"]
    world.manager.ledger.drop_penalty("default/user", "default/x")
    world.manager.reorder("one")
    assert active(world, "one") == ["default/a", "default/b"]


def cpu(text: str) -> Resources:
    return {"cpu": parse(text)}


# -- second pass -----------------------------------------------------------------------------------


def delayed(name: str):
    """A workload with quota that is to be placed after its admission checks."""
    tree = admitted(workload(name), "one")
    status = tree["status"]
    (assignment,) = status["admission"]["podSetAssignments"]
    waiting = {**assignment, "delayedTopologyRequest": "Pending"}
    reserved = [each for each in status["conditions"] if each["type"] == "QuotaReserved"]
    return {
        **tree,
        "status": {
            "conditions": reserved,
            "admissionChecks": [{"name": "ready", "state": "Ready"}],
            "admission": {"clusterQueue": "one", "podSetAssignments": [waiting]},
        },
    }


def test_a_workload_waits_once_for_its_second_pass_and_longer_each_time():
    world = queues("one")
    tree = delayed("a")
    assert world.manager.queue_second_pass(tree, 0)
    assert not world.manager.queue_second_pass(tree, 0)
    ((after, _, iteration),) = world.around.second_passes
    assert (after, iteration) == (SECOND, 1)
    world.manager.second_pass_due(tree, iteration)
    (head,) = world.manager.heads()
    assert (head.info.key, head.info.second_pass_iteration) == ("default/a", 1)
    assert world.manager.queue_second_pass(tree, 1)
    assert world.around.second_passes[1][0] == 2 * SECOND


def test_a_workload_that_lost_its_quota_takes_no_second_pass():
    world = queues("one")
    world.manager.queue_second_pass(delayed("a"), 0)
    world.manager.second_pass_due(workload("a"), 1)
    assert world.manager.heads() == []


def test_a_deleted_workload_takes_no_second_pass():
    world = queues("one")
    world.manager.queue_second_pass(delayed("a"), 0)
    world.manager.delete_second_pass("default/a")
    world.manager.second_pass_due(delayed("a"), 1)
    assert world.manager.heads() == []
    assert not world.manager.queue_second_pass(workload("a"), 1)
