"""Workload and schedule are drawn from one source and shrink together."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from controlplane.cluster import ClusterConfig
from controlplane.scenarios import Scenario
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.scheduling_queue import LEDGER, queue_holds
from controlplane.testing.hypothesis import Drawn, execute, operations, pods, workload


def build(setting):
    return ClusterConfig(
        nodes=setting.nodes(), kubelets=False, controllers=False, scheduler_watches=()
    )


class Always:
    """Draws the same value each time."""

    def __init__(self, value: int) -> None:
        self.value = value

    def draw(self, strategy, label=None):
        return self.value


def scenario_of(todo):
    return Scenario("drawn", workload=workload(todo), build=build, invariants=queue_holds(LEDGER))


@settings(max_examples=15)
@given(data=st.data(), todo=operations(("a", "b"), most=6))
def test_the_ledger_holds_whatever_users_do(data, todo) -> None:
    assert execute(plan_of(scenario_of(todo)), Drawn(data)).result.ok


def test_operations_shrink_to_the_one_that_matters() -> None:
    todo = find(
        operations(("a", "b"), most=8),
        lambda found: any(each.verb == "delete" for each in found),
        settings=settings(phases=(Phase.generate, Phase.shrink), database=None),
    )
    assert [each.verb for each in todo] == ["delete"]


@pytest.mark.parametrize("value", [0, 1])
def test_a_drawn_schedule_is_plain_after_its_last_draw(value: int) -> None:
    assert execute(plan_of(scenario_of([])), Drawn(Always(value), most=20)).result.ok


def test_a_drawn_priority_class_gives_the_stored_pod_its_priority() -> None:
    tree = find(
        pods(("a",)),
        lambda drawn: "priorityClassName" in drawn["spec"],
        settings=settings(phases=(Phase.generate, Phase.shrink), database=None),
    )
    seen: list[int] = []

    async def see(user):
        await user.create(tree)
        seen.extend(each.tree["spec"]["priority"] for each in await user.list("Pod"))

    scenario = attrs.evolve(scenario_of([]), workload=see)
    assert execute(plan_of(scenario), Drawn(Always(0))).result.ok
    assert seen == [2_000_000_000]
