"""Faults with a budget: none in the plain run, at any step in a search, each logged, and the cluster heals."""

from __future__ import annotations

import pytest

from actors import EventLog, Fifo, RandomWalk
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.nemesis import InjectedFault, nemesis, refused
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of


async def workload(user) -> None:
    for name in ("a", "b", "c"):
        await user.attempt(user.create(pod(name, "100m")))
        await user.sleep(2)


def execute(strategy, *faults) -> Execution:
    scenario = Scenario("strikes", workload=workload, faults=faults)
    run = Execution(plan_of(scenario), strategy, log=EventLog())
    run.execute("bare")
    return run


def faults(run: Execution) -> list[tuple[int, str]]:
    return [(event.step, event.data["fault"]) for event in run.world.log if event.event == "fault"]


def test_the_plain_run_meets_none() -> None:
    run = execute(Fifo(), nemesis(3))
    assert run.result.verdict == "quiescent"
    assert faults(run) == []


@pytest.mark.slow
def test_strikes_are_spread_over_the_run_and_what_struck_is_set_right() -> None:
    steps, kinds = set(), set()
    for seed in range(25):
        run = execute(RandomWalk(seed), nemesis(2))
        assert run.result.verdict == "quiescent", (seed, run.result.reason)
        found = faults(run)
        for name in ("crash", "cut"):
            ends = "restart" if name == "crash" else "heal"
            began = sum(kind == name for _, kind in found)
            assert began <= sum(kind == ends for _, kind in found)
        steps |= {step // 100 for step, _ in found}
        kinds |= {kind for _, kind in found}
    assert len(steps) >= 4
    assert {"crash", "restart", "cut", "heal", "lose", "intercept"} <= kinds


@pytest.mark.parametrize("code", [409, 429, 500])
def test_a_refused_request_is_answered_with_an_error_of_the_api(code: int) -> None:
    def faults(_user):
        return [InjectedFault(refused("user", "apiserver", code))]

    for seed in range(10):
        run = execute(RandomWalk(seed), nemesis(1, faults, horizon=10))
        answers = [event.data["answer"] for event in run.world.log if event.event == "fault"]
        if answers:
            assert answers == [str(code)]
            return
    raise AssertionError("it never struck")


def test_a_swarm_leaves_some_operations_out() -> None:
    run = execute(RandomWalk(1), nemesis(2, swarm=True))
    drawn = [choice for choice in run.result.choices if choice.label == "is left out"]
    assert {choice.value for choice in drawn} == {0, 1}
