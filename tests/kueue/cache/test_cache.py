from __future__ import annotations

import pytest

from controlplane.kueue.amounts import FlavorResource
from controlplane.kueue.cache.cache import Cache, CacheError
from controlplane.kueue.gates import Gates
from tests.kueue.objects import (
    admitted,
    cache,
    cluster_queue,
    cohort,
    evicted,
    flavor,
    local_queue,
    workload,
)

CPU = FlavorResource("default", "cpu")


def test_a_queue_waits_for_its_flavors() -> None:
    made = cache([cluster_queue("a", {"spot/cpu": 1})])
    text = "Can't admit new workloads: references missing ResourceFlavor(s): spot."
    assert made.readiness("a") == ("False", "FlavorNotFound", text)
    assert made.add_or_update_flavor(flavor("spot")) == ["a"]
    assert made.readiness("a") == ("True", "Ready", "Can admit new workloads")
    assert made.delete_flavor(flavor("spot")) == []
    assert not made.cluster_queue_active("a")


def test_all_obstacles_are_told_and_the_first_is_the_reason() -> None:
    checks = {"admissionChecks": [{"name": "gone"}, {"name": "idle"}]}
    queue = cluster_queue(
        "a", {"default/cpu": 1}, stopPolicy="Hold", admissionChecksStrategy=checks
    )
    made = cache([queue])
    made.add_or_update_check({"metadata": {"name": "idle"}, "spec": {"controllerName": "x"}})
    text = (
        "Can't admit new workloads: is stopped, references missing AdmissionCheck(s): gone, "
        "references inactive AdmissionCheck(s): idle."
    )
    assert made.readiness("a") == ("False", "Stopped", text)


def test_a_terminating_queue_stays_so() -> None:
    made = cache([cluster_queue("a", {"default/cpu": 1})])
    made.terminate_cluster_queue("a")
    made.update_cluster_queue(cluster_queue("a", {"default/cpu": 2}))
    assert made.readiness("a")[1] == "Terminating"


def test_workloads_count_while_they_hold_quota() -> None:
    made = cache([cluster_queue("a", {"default/cpu": 4})])
    tree = admitted(workload("w", requests={"cpu": "3"}), "a")
    assert made.add_or_update(tree)
    assert made.add_or_update(evicted(tree))
    assert made.usage("a").reserved[0]["resources"][0]["total"] == "3"
    assert not made.add_or_update(workload("w"))
    assert made.cluster_queue_empty("a")
    assert made.tree.queues["a"].usage[CPU] == 0


def test_a_workload_moves_with_its_admission() -> None:
    made = cache([cluster_queue("a", {"default/cpu": 4}), cluster_queue("b", {"default/cpu": 4})])
    made.add_or_update(admitted(workload("w"), "a"))
    made.add_or_update(admitted(workload("w"), "b"))
    assert made.cluster_queue_empty("a")
    assert not made.cluster_queue_empty("b")


def test_a_cohort_cycle_keeps_queues_out_until_it_is_broken() -> None:
    made = cache([cluster_queue("a", {"default/cpu": 4}, "one")])
    made.add_or_update_cohort(cohort("one", parent="two"))
    with pytest.raises(CacheError, match="cohort has a cycle"):
        made.add_or_update_cohort(cohort("two", parent="one"))
    assert made.snapshot().inactive == {"a": "HasCycle"}
    made.add_or_update_cohort(cohort("two", {"default/cpu": 6}))
    snapshot = made.snapshot()
    assert snapshot.inactive == {}
    assert snapshot.queues["a"].potential(CPU) == 10_000


def test_an_implicit_cohort_lives_as_long_as_its_queues() -> None:
    made = cache([cluster_queue("a", {"default/cpu": 4}, "team")])
    assert not made.tree.cohorts["team"].explicit
    made.delete_cluster_queue("a")
    assert made.tree.cohorts == {}


def test_children_outlive_a_deleted_cohort() -> None:
    quotas = {"default/cpu": 6}
    made = cache([cluster_queue("a", {"default/cpu": 4}, "team")], cohorts=[cohort("team", quotas)])
    assert made.snapshot().queues["a"].potential(CPU) == 10_000
    made.delete_cohort("team")
    assert made.snapshot().queues["a"].potential(CPU) == 4_000


def test_generations_grow_when_quota_may_be_free() -> None:
    made = cache([cluster_queue("a", {"default/cpu": 4})])
    queue = made.tree.queues["a"]
    before = queue.generation
    made.add_or_update(admitted(workload("w"), "a"))
    assert queue.generation == before
    made.delete_workload("default/w")
    assert queue.generation == before + 1


def test_local_queues_count_their_own_workloads() -> None:
    made = cache([cluster_queue("a", {"default/cpu": 4})])
    queue = local_queue("user", "a")
    made.add_local_queue(queue)
    made.add_or_update(admitted(workload("w"), "a"))
    made.add_or_update(admitted(workload("v", "other"), "a"))
    usage = made.local_queue_usage(queue)
    assert (usage.reserving, usage.admitted) == (1, 1)
    assert usage.reserved == [{"name": "default", "resources": [{"name": "cpu", "total": "1"}]}]
    with pytest.raises(CacheError, match="queue already exists"):
        made.add_local_queue(queue)


def test_variants_hold_quota_in_stead_of_their_parent() -> None:
    gates = Gates({"ConcurrentAdmission": True})
    made = Cache(gates)
    made.add_or_update_flavor(flavor("default"))
    policy = {"migration": {"mode": "TryPreferredFlavors"}}
    made.add_cluster_queue(cluster_queue("a", {"default/cpu": 4}, concurrentAdmissionPolicy=policy))
    assert not made.add_or_update(admitted(workload("parent"), "a"))


def test_a_snapshot_restores_what_was_taken_out() -> None:
    trees = [admitted(workload(name, requests={"cpu": "3"}), "a") for name in ("v", "w")]
    queues = [
        cluster_queue("a", {"default/cpu": (2, None, 1)}, "team"),
        cluster_queue("b", {"default/cpu": 9}, "team"),
    ]
    snapshot = cache(queues, trees).snapshot()
    queue = snapshot.queues["a"]
    before = dict(queue.usage), dict(snapshot.cohorts["team"].usage)
    put_back = snapshot.remove_workloads(queue.workloads.values())
    assert queue.workloads == {}
    assert snapshot.cohorts["team"].usage[CPU] == 0
    put_back()
    assert (dict(queue.usage), dict(snapshot.cohorts["team"].usage)) == before
    assert sorted(queue.workloads) == ["default/v", "default/w"]


def test_a_snapshot_leaves_the_cache_alone() -> None:
    made = cache([cluster_queue("a", {"default/cpu": 4}, "team")])
    made.add_or_update(admitted(workload("w"), "a"))
    made.snapshot().queues["a"].add_usage(CPU, 5_000)
    assert made.tree.queues["a"].usage[CPU] == 1_000
    assert made.tree.cohorts["team"].usage[CPU] == 1_000
