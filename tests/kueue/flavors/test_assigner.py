from __future__ import annotations

from dataclasses import replace

from controlplane.kueue.amounts import FlavorResource
from controlplane.kueue.flavors.assigner import FlavorAssigner
from controlplane.kueue.flavors.modes import Mode, Possibility
from controlplane.kueue.gates import Gates
from controlplane.kueue.workload.info import LastAssignment, new_info
from tests.kueue.objects import admitted, cache, cluster_queue, flavor, pod_set, workload

TAINT = {"key": "spot", "value": "yes", "effect": "NoSchedule"}


class Answers:
    """An oracle that gives the same answer always, and notes what it was asked."""

    def __init__(self, answer=(Possibility.NO_CANDIDATES, 0)) -> None:
        self.answer, self.asked = answer, []

    def simulate(self, queue, info, pair, amount):
        self.asked.append((pair, amount))
        return self.answer


def assigner(tree, queues, workloads=(), oracle=None, gates=None, **fields):
    gates = gates or Gates()
    flavors = {each: None for queue in queues for each in names(queue)}
    made = cache(list(queues), list(workloads), flavors=tuple(flavors), gates=gates)
    snapshot = made.snapshot()
    info = replace(new_info(tree, gates), cluster_queue="a", **fields)
    return FlavorAssigner(
        info, snapshot.queues["a"], snapshot.flavors, oracle or Answers(), gates, cycle=1
    )


def names(queue):
    return [each["name"] for group in queue["spec"]["resourceGroups"] for each in group["flavors"]]


def chosen(assignment):
    return {
        (pod_set.name, resource): each.name
        for pod_set in assignment.pod_sets
        for resource, each in pod_set.flavors.items()
    }


TWO = {"spot/cpu": 2, "reserved/cpu": 4}


def test_the_first_flavor_that_fits_is_taken() -> None:
    found = assigner(workload("w", requests={"cpu": "3"}), [cluster_queue("a", TWO)]).assign()
    assert found.mode() is Mode.FIT
    assert chosen(found) == {("main", "cpu"): "reserved"}
    assert found.usage == {FlavorResource("reserved", "cpu"): 3000}
    text = (
        "main: spot(NoFit;insufficient quota for cpu in flavor spot, previously considered "
        "podsets requests (0) + current podset request (3) > maximum capacity (2))"
    )
    assert found.considered() == text


def test_later_pod_sets_see_what_earlier_ones_took() -> None:
    sets = [pod_set(name, requests={"cpu": "2"}) for name in ("one", "two", "three")]
    found = assigner(workload("w", pod_sets=sets), [cluster_queue("a", TWO)]).assign()
    assert chosen(found) == {
        ("one", "cpu"): "spot", ("two", "cpu"): "reserved", ("three", "cpu"): "reserved"
    }  # fmt: skip


def test_the_scan_goes_on_where_it_stopped() -> None:
    queue = cluster_queue("a", TWO)
    last = LastAssignment(({"cpu": 0},))
    tree = workload("w", requests={"cpu": "1"})
    found = assigner(tree, [queue], last_assignment=last).assign()
    assert chosen(found) == {("main", "cpu"): "reserved"}
    off = Gates({"FlavorFungibility": False})
    found = assigner(tree, [queue], last_assignment=last, gates=off).assign()
    assert chosen(found) == {("main", "cpu"): "spot"}


def test_a_scan_index_behind_the_last_flavor_leaves_no_reason() -> None:
    """Flavors were removed since: nothing is looked at, and nothing speaks against the workload."""
    last = LastAssignment(({"cpu": 5},))
    found = assigner(workload("w"), [cluster_queue("a", TWO)], last_assignment=last).assign()
    assert (found.mode(), chosen(found), found.usage) == (Mode.FIT, {}, {})


def test_a_resource_without_quota_is_refused_unless_told_otherwise() -> None:
    tree = workload("w", requests={"cpu": "1", "example.com/gpu": "1"})
    made = assigner(tree, [cluster_queue("a", TWO)])
    found = made.assign()
    assert found.mode() is Mode.NO_FIT
    text = (
        "couldn't assign flavors to pod set main: "
        "resource example.com/gpu unavailable in ClusterQueue"
    )
    assert found.message() == text
    assert replace(made, quota_check="IgnoreUndeclared").assign().mode() is Mode.FIT


def test_a_restriction_to_nominated_flavors_skips_the_others() -> None:
    nomination = {"main": {"cpu": "reserved"}}
    found = assigner(workload("w"), [cluster_queue("a", TWO)], nomination=nomination).assign()
    assert chosen(found) == {("main", "cpu"): "reserved"}


def test_preemption_is_asked_about_where_quota_is_in_use() -> None:
    oracle = Answers((Possibility.RECLAIM, 0))
    queue = cluster_queue("a", {"spot/cpu": 2}, "team")
    used = admitted(workload("old", requests={"cpu": "2"}), "a", "spot")
    found = assigner(workload("w"), [queue], [used], oracle).assign()
    assert found.mode() is Mode.PREEMPT
    assert oracle.asked == [(FlavorResource("spot", "cpu"), 1000)]
    assert found.pairs_needing_preemption() == (FlavorResource("spot", "cpu"),)


def test_pods_are_counted_where_they_have_quota() -> None:
    queue = cluster_queue("a", {"spot/cpu": 8, "spot/pods": 2}, resources=("cpu", "pods"))
    tree = workload("w", pod_sets=[pod_set(count=3, requests={"cpu": "1"})])
    found = assigner(tree, [queue]).assign()
    assert found.mode() is Mode.NO_FIT
    assert "insufficient quota for pods in flavor spot" in found.message()
    assert assigner(tree, [queue]).assign([2]).mode() is Mode.FIT


def test_untolerated_taints_and_foreign_labels_rule_a_flavor_out() -> None:
    selector = {"nodeSelector": {"pool": "reserved", "other/label": "x"}}
    tree = workload("w", pod_sets=[pod_set(requests={"cpu": "1"}, spec=selector)])
    made = assigner(tree, [cluster_queue("a", TWO)])
    flavors = {
        "spot": flavor("spot", {"pool": "spot"}),
        "reserved": flavor("reserved", {"pool": "reserved"}),
    }
    found = replace(made, flavors=flavors).assign()
    assert chosen(found) == {("main", "cpu"): "reserved"}
    assert found.considered() == "main: spot(NoFit;flavor spot doesn't match node affinity)"
    flavors["reserved"] = flavor("reserved", {"pool": "reserved"}, [TAINT])
    found = replace(made, flavors=flavors).assign()
    assert found.no_fit_reason == "NoMatchingFlavor"
    assert "untolerated taint {spot yes NoSchedule <nil>} in flavor reserved" in found.message()
