"""Storage under exploration: nothing is left over, and a group is one point in time if the driver cuts it so."""

from __future__ import annotations

import pytest

from actors import RandomWalk
from controlplane.scenarios.execution import Execution
from controlplane.scenarios.exploring import Campaign
from controlplane.scenarios.invariants.storage import DRIVER
from controlplane.scenarios.loading import from_module
from controlplane.scenarios.plan import plan_of

SCENARIO = from_module("controlplane.scenarios.storage_churn")
SCHEDULES = 10


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
def test_a_volume_follows_its_pod_to_another_node(fault):
    seen = explored(2, part="attach", fault=fault)
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
