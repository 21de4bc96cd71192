"""Topologies between cycles, and places for pods that golden cases do not ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.kueue.gates import Gates
from controlplane.kueue.topology.assignment import HOSTNAME, Assignment, DomainCount
from controlplane.kueue.topology.cache import TopologyCache
from controlplane.kueue.topology.requests import PodSetRequest
from controlplane.kueue.topology.snapshot import FlavorSnapshot, Placement
from controlplane.kueue.workload.info import DomainRequests
from tests.kueue.objects import pod_set

RACK = "rack"
ELASTIC = "ElasticJobsViaWorkloadSlicesWithTAS"
TOLERATION = {"key": "gpu", "operator": "Exists"}


def node(name: str, rack: str, cpu: int = 4, **spec: Any) -> Any:
    return {
        "metadata": {"name": name, "labels": {RACK: rack, HOSTNAME: name, "pool": "a"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": str(cpu), "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def topology(*levels: str) -> Any:
    return {
        "metadata": {"name": "racks"},
        "spec": {"levels": [{"nodeLabel": each} for each in levels]},
    }


def flavor(**labels: str) -> Any:
    return {
        "metadata": {"name": "racked"},
        "spec": {"nodeLabels": labels or {"pool": "a"}, "topologyName": "racks"},
    }


def cache(gates: Gates | None = None) -> TopologyCache:
    made = TopologyCache(gates or Gates())
    made.add_or_update_flavor(flavor())
    made.add_topology(topology(RACK, HOSTNAME))
    for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2")):
        made.sync_node(node(name, rack))
    return made


def snapshot(of: TopologyCache) -> FlavorSnapshot:
    return of.snapshots()["racked"]


def workers(count: int, cpu: int = 2, **request: Any) -> PodSetRequest:
    wanted = request or {"unconstrained": True}
    return PodSetRequest(pod_set(count=count, topologyRequest=wanted), {"cpu": cpu * 1000}, count)


def places(placement: Placement) -> dict[str, int]:
    assert placement.assignment is not None, placement.failure
    return {each.values[-1]: each.count for each in placement.assignment.domains}


def pod(name: str, on: str, cpu: int = 1, phase: str = "Running") -> Any:
    container = {"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": on, "containers": [container]},
        "status": {"phase": phase},
    }


# -- between cycles --------------------------------------------------------------------------------


def test_a_flavor_counts_once_its_topology_is_known_and_no_longer_than_that():
    made = TopologyCache(Gates())
    made.add_or_update_flavor(flavor())
    assert made.flavors() == {}
    made.add_topology(topology(RACK))
    assert list(made.flavors()) == ["racked"]
    made.delete_topology("racks")
    assert made.flavors() == {}
    made.add_topology(topology(RACK))
    made.delete_flavor("racked")
    assert made.flavors() == {}


def test_a_change_of_labels_or_levels_gives_another_tree_and_keeps_usage():
    made = cache()
    known = made.flavor("racked")
    assert known is not None
    known.add_usage("default/a", [DomainRequests(("n1",), {"cpu": 1000}, 1)])
    assert sorted(snapshot(made).free) == ["n1", "n2", "n3"]
    made.add_topology(topology(RACK))
    assert sorted(snapshot(made).free) == ["r1", "r2"]
    made.add_or_update_flavor(flavor(pool="b"))
    assert snapshot(made).free == {}
    assert known.usage["n1"]["cpu"] == 1000
    known.remove_usage("default/a")
    assert known.usage["n1"]["cpu"] == 0


@pytest.mark.parametrize(
    "changed",
    [
        node("n1", "r1", unschedulable=True),
        {**node("n1", "r1"), "status": {"conditions": []}},
    ],
)
def test_a_node_that_takes_no_pods_has_no_domain(changed):
    made = cache()
    made.sync_node(changed)
    assert sorted(snapshot(made).free) == ["n2", "n3"]


def test_the_tree_is_kept_until_a_node_changes():
    made = cache()
    tree = snapshot(made).tree
    made.sync_node(node("n1", "r1"))
    assert snapshot(made).tree is tree
    made.sync_node(node("n1", "r1", cpu=8))
    assert snapshot(made).tree is not tree
    made.delete_node("n1")
    assert sorted(snapshot(made).free) == ["n2", "n3"]


def test_a_node_belongs_to_the_flavors_that_select_it():
    made = cache()
    assert made.flavors_of_nodes(node("n9", "r9")) == ["racked"]
    bare = node("n9", "r9")
    del bare["metadata"]["labels"][RACK]
    assert made.flavors_of_nodes(bare) == []


def test_pods_of_others_take_room_and_tell_where_they_gave_it_back():
    made = cache()
    assert made.update_pod(pod("x", "n1", cpu=3)) == ""
    assert snapshot(made).free["n1"]["cpu"] == 1000
    assert made.update_pod(pod("x", "n1", cpu=3)) == ""
    assert made.update_pod(pod("x", "n1", cpu=1)) == "n1"
    assert made.update_pod(pod("x", "n1", phase="Succeeded")) == "n1"
    assert made.delete_pod("default/x") == ""
    assert snapshot(made).free["n1"]["cpu"] == 4000


def test_room_for_a_workload_is_room_in_each_of_its_domains():
    found = snapshot(cache())
    one = DomainRequests(("n1",), {"cpu": 2000}, 2)
    assert found.fits([one])
    found.add_usage([one])
    assert not found.fits([replace(one, count=1)])
    assert not found.fits([DomainRequests(("gone",), {"cpu": 1}, 1)])
    found.remove_usage([one])
    assert found.fits([one])


# -- updates of admission checks -------------------------------------------------------------------


def test_tolerations_of_an_admission_check_open_a_tainted_node():
    made = cache()
    for name in ("n1", "n2"):
        made.sync_node(node(name, "r1", taints=[{"key": "gpu", "effect": "NoSchedule"}]))
    request = workers(3, required=RACK)
    assert "allows to fit only 2 out of 3" in snapshot(made).find([request])["main"].failure
    opened = replace(request, updates=({"name": "main", "tolerations": [TOLERATION] * 2},))
    assert places(snapshot(made).find([opened])["main"]) == {"n1": 2, "n2": 1}


def test_the_node_selector_of_an_admission_check_counts():
    update = {"name": "main", "nodeSelector": {HOSTNAME: "n3"}, "labels": {"a": "b"}}
    found = snapshot(cache()).find([replace(workers(2), updates=(update,))])
    assert places(found["main"]) == {"n3": 2}


def test_updates_that_contradict_each_other_are_a_failure():
    updates = tuple({"name": "main", "nodeSelector": {HOSTNAME: name}} for name in ("n1", "n3"))
    failure = snapshot(cache()).find([replace(workers(1), updates=updates)])["main"].failure
    assert f"conflict for nodeSelector: conflict for key={HOSTNAME}" in failure


# -- pods that stay --------------------------------------------------------------------------------


def before(**domains: int) -> Assignment:
    return Assignment(
        (HOSTNAME,), tuple(DomainCount((name,), count) for name, count in domains.items())
    )


def elastic(count: int, previous: Assignment) -> Placement:
    made = cache(Gates({ELASTIC: True}))
    (placed,) = snapshot(made).find([replace(workers(count), previous=previous)]).values()
    return placed


@pytest.mark.parametrize(("count", "expected"), [(2, {"n1": 1, "n3": 1}), (1, {"n1": 1})])
def test_an_elastic_job_that_shrinks_keeps_its_first_pods(count, expected):
    assert places(elastic(count, before(n1=1, n3=1))) == expected


@pytest.mark.parametrize("count", [3, 4])
def test_an_elastic_job_that_grows_keeps_the_places_of_its_pods(count):
    found = places(elastic(count, before(n1=1, n3=1)))
    assert sum(found.values()) == count
    assert all(found[name] >= 1 for name in ("n1", "n3"))


def test_an_elastic_job_whose_node_is_gone_is_placed_anew():
    assert sum(places(elastic(2, before(gone=2))).values()) == 2


def test_an_elastic_job_that_does_not_fit_says_so():
    assert elastic(9, before(n1=2)).failure


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"required": RACK, "podSetSliceRequiredTopology": HOSTNAME}, "slice size"),
        (
            {"required": RACK, "podSetSliceRequiredTopology": "zone", "podSetSliceSize": 2},
            "no requested topology level for slices: zone",
        ),
    ],
)
def test_slices_that_make_no_sense_are_a_failure(wanted, text):
    (placed,) = snapshot(cache()).find([workers(4, **wanted)]).values()
    assert text in placed.failure
