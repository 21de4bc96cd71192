"""A world at rest stays as it is when its processes start anew; one that had not come to rest does not."""

from __future__ import annotations

import pytest

from controlplane.api.object import Object
from controlplane.scenarios.engine.convergence import change, state_of
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.scenario import Invariant, Scenario
from controlplane.scenarios.engine.user import User
from controlplane.scenarios.invariants.restarts import A_RESTART_CHANGES_NOTHING, restart_at_rest


def pod(name, uid="u", phase="Running", **status):
    return Object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": "7"},
            "status": {"phase": phase, **status},
        }
    )


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ([pod("a")], [pod("a")], None),
        ([pod("a")], [], "Pod default/a is gone"),
        ([], [pod("a")], "Pod default/a is there"),
        ([pod("a")], [pod("a", uid="w")], 'Pod default/a: object was "u" and is "w"'),
        (
            [pod("a")],
            [pod("a", phase="Failed")],
            'Pod default/a: status.phase was "Running" and is "Failed"',
        ),
        ([pod("a", startTime="1")], [pod("a", startTime="2")], None),
        ([pod("a", phase="Failed", x=1)], [pod("a", phase="Failed", x=2)], None),
    ],
)
def test_a_change_is_told_with_its_object_and_field(before, after, told):
    assert change(state_of(before), state_of(after)) == told


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def test_a_world_in_which_a_law_does_not_hold_is_left_as_it_is():
    async def workload(user: User) -> None:
        await restart_at_rest(user, ["no such process"], 30, [Invariant("false", lambda _: "no")])

    scenario = Scenario("left", workload=workload, invariants=(A_RESTART_CHANGES_NOTHING,))
    assert Execution(plan_of(scenario)).execute("bare").ok


@pytest.mark.parametrize("overlooked", [False, True])
def test_what_a_process_has_overlooked_is_done_after_its_restart(overlooked):
    async def workload(user: User) -> None:
        await user.sleep(1)
        if overlooked:
            user.cut("scheduler", "apiserver")
        await user.create(POD)
        await user.sleep(5)
        if overlooked:
            user.heal("scheduler", "apiserver")
        await restart_at_rest(user, ["scheduler"], 30)

    scenario = Scenario(
        "restarted",
        workload=workload,
        invariants=(A_RESTART_CHANGES_NOTHING,),
        defaults={"nodes": 1},
    )
    result = Execution(plan_of(scenario)).execute("bare")
    assert result.ok is not overlooked
    if overlooked:
        assert result.reason.startswith(
            "a restart at rest changes nothing: after all processes were restarted: Pod default/p: "
        )
