"""Storage under exploration: nothing is left over, and a group is one point in time if the driver cuts it so."""

from __future__ import annotations

import pytest
from attrs import evolve

from actors import RandomWalk
from controlplane.apiserver.kinds.custom.resources import resource_of
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.storage import DRIVER
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scenarios.search.loading import from_module

SCENARIO = from_module("controlplane.scenarios.churns.storage_churn")
SCHEDULES = 10
DEFINITIONS = "/registry/apiextensions.k8s.io/customresourcedefinitions/"


def explored(schedules=SCHEDULES, **options):
    return Campaign(plan_of(SCENARIO, **options)).explore(schedules)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "driver", "sidecar", "controller", "leader"])
@pytest.mark.parametrize("part", ["create", "group", "restore", "consistency"])
def test_in_the_end_nothing_is_left_over(part, fault):
    seen = explored(3 if fault == "leader" else SCHEDULES, part=part, fault=fault)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "driver", "sidecar", "controller", "leader"])
@pytest.mark.parametrize("part", ["attach", "claims"])
def test_a_volume_follows_its_pod_and_its_claim(part, fault):
    seen = explored(2, part=part, fault=fault)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "driver"])
def test_what_a_pod_wrote_is_cut_at_one_point_in_time(fault):
    seen = explored(2, part="pods", fault=fault)
    assert list(seen.verdicts) == ["quiescent"], seen.findings[0].result.reason


@pytest.mark.slow
@pytest.mark.parametrize("part", ["consistency", "pods"])
@pytest.mark.parametrize("cut", ["sequential", "series"])
def test_volumes_that_are_cut_one_after_the_other_are_no_point_in_time(cut, part):
    seen = explored(part=part, fault="none", cut=cut)
    assert seen.findings[0].result.reason.startswith("a group is one point in time")


@pytest.mark.slow
def test_of_two_controllers_one_leads_and_the_other_takes_over():
    transitions = []
    for seed in (3, 4):
        execution = Execution(plan_of(SCENARIO, part="group", fault="leader"), RandomWalk(seed))
        assert execution.world.run("bare").ok
        leases = execution.cluster.objects("/registry/leases/")
        elections = {each.name: each.tree["spec"] for each in leases}
        both = ("snapshot-controller-leader", f"external-snapshotter-leader-{DRIVER}")
        transitions.append([elections[name].get("leaseTransitions", 0) for name in both])
    assert any(first for first, _ in transitions)
    assert any(second for _, second in transitions)


@pytest.mark.parametrize(("part", "cut"), [("group", "atomic"), ("consistency", "series")])
def test_laws_of_what_is_stored_are_asked_when_something_was_written(part, cut):
    plan = plan_of(SCENARIO, part=part, cut=cut)
    ends = []
    for looks in (True, False):
        laws = tuple(each if looks else evolve(each, looks_at=None) for each in plan.invariants())
        tried = evolve(plan, scenario=evolve(plan.scenario, invariants=laws))
        result = Campaign(tried).under(3).result
        ends.append((result.verdict, result.reason, result.steps, result.trace_hash))
    assert ends[0] == ends[1]


def test_worlds_that_begin_with_one_store_share_what_its_definitions_serve():
    plan = plan_of(SCENARIO)
    served = []
    for _ in range(2):
        store = Execution(plan, RandomWalk(0)).cluster.store
        stored = [entry.object.tree for entry in store.keyspace(DEFINITIONS).entries.values()]
        (crd,) = (each for each in stored if each["spec"]["names"]["plural"] == "volumesnapshots")
        served.append(resource_of(crd, crd["spec"]["versions"][0]))
    assert served[0] is served[1]
    changed = {
        **crd,
        "status": {**crd["status"], "acceptedNames": {**crd["spec"]["names"], "shortNames": ["x"]}},
    }
    assert resource_of(changed, crd["spec"]["versions"][0]).short_names == ("x",)
    assert served[0].short_names != ("x",)
