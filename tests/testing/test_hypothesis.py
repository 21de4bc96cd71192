"""Workload and schedule are drawn from one source and shrink together."""

from __future__ import annotations

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from controlplane.cluster import ClusterConfig
from controlplane.scenarios import Scenario
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.scheduling_queue import LEDGER, queue_holds
from controlplane.testing.hypothesis import Drawn, execute, operations, workload


def build(setting):
    return ClusterConfig(
        nodes=setting.nodes(), kubelets=False, controllers=False, scheduler_watches=()
    )


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
    class Always:
        def draw(self, strategy, label=None):
            return value

    assert execute(plan_of(scenario_of([])), Drawn(Always(), most=20)).result.ok
