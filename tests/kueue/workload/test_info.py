from __future__ import annotations

from dataclasses import replace

from controlplane.kueue.gates import Gates
from controlplane.kueue.workload.info import LastAssignment, new_info, next_flavor, updated
from controlplane.kueue.workload.requests import RequestOptions
from tests.kueue.objects import admitted, pod_set, workload

GATES = Gates()


def with_status(tree, **status):
    return {**tree, "status": {**tree.get("status", {}), **status}}


def test_requests_count_all_pods_that_are_left() -> None:
    tree = workload("a", pod_sets=[pod_set(count=3, requests={"cpu": "2"})])
    assert new_info(tree, GATES).total_requests[0].requests == {"cpu": 6000}
    tree = with_status(tree, reclaimablePods=[{"name": "main", "count": 2}])
    assert new_info(tree, GATES).total_requests[0].requests == {"cpu": 2000}
    off = Gates({"ReclaimablePods": False})
    assert new_info(tree, off).total_requests[0].requests == {"cpu": 6000}


def test_reclaimed_pods_scale_the_usage_of_an_admission_down() -> None:
    tree = workload("a", pod_sets=[pod_set(count=3, requests={"cpu": "2"})])
    tree = with_status(admitted(tree, "q"), reclaimablePods=[{"name": "main", "count": 1}])
    info = new_info(tree, GATES)
    assert (info.cluster_queue, info.total_requests[0].count) == ("q", 2)
    assert info.quota_usage[0] == {("default", "cpu"): 4000}


def test_more_reclaimed_than_there_are_counts_as_all() -> None:
    tree = with_status(workload("a"), reclaimablePods=[{"name": "main", "count": 9}])
    assert new_info(tree, GATES).total_requests[0].requests == {"cpu": 0}


def test_excluded_resources_do_not_count() -> None:
    options = RequestOptions(excluded_prefixes=("net.example.com/",))
    tree = workload("a", requests={"cpu": "1", "net.example.com/port": "4"})
    assert new_info(tree, GATES, options).total_requests[0].requests == {"cpu": 1000}


def test_priority_and_shape_decide_the_hash() -> None:
    one, other = workload("a"), workload("b", age=30)
    assert new_info(one, GATES).hash == new_info(other, GATES).hash
    assert new_info(one, GATES).hash != new_info(workload("c", priority=1), GATES).hash
    off = Gates({"SchedulingEquivalenceHashing": False})
    assert new_info(one, off).hash == "unknown"


def test_a_newer_object_keeps_what_the_queue_knows() -> None:
    info = replace(new_info(workload("a"), GATES), last_evaluated_generation=7)
    newer = updated(info, workload("a", requests={"cpu": "3"}), GATES)
    assert newer.last_evaluated_generation == 7
    assert newer.total_requests[0].requests == {"cpu": 3000}
    assert newer.hash != info.hash


def test_the_search_for_flavors_goes_on_after_the_last_one_tried() -> None:
    last = LastAssignment(({"cpu": 1, "memory": -1},))
    assert next_flavor(last, 0, "cpu", GATES) == 2
    assert next_flavor(last, 0, "memory", GATES) == 0
    assert next_flavor(last, 1, "cpu", GATES) == 0
    assert next_flavor(None, 0, "cpu", GATES) == 0
    assert next_flavor(last, 0, "cpu", Gates({"FlavorFungibility": False})) == 0
    assert last.pending()
    assert not LastAssignment(({"cpu": -1},)).pending()


def test_partial_admission_needs_a_lower_minimum() -> None:
    def info(**fields):
        return new_info(workload("a", pod_sets=[pod_set(count=3, **fields)]), GATES)

    assert not info().can_be_partially_admitted()
    assert not info(minCount=3).can_be_partially_admitted()
    assert info(minCount=2).can_be_partially_admitted()
