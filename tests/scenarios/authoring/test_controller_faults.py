"""The three patterns: each finds the controller that is wrong in its way, and not the one that is right."""

from __future__ import annotations

import pytest

from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.controller_faults import (
    intermediate_state,
    stale_state,
    unobserved_state,
)
from controlplane.scenarios.authoring.workloads import config_map
from controlplane.scenarios.authoring.worlds import lagging_servers, scheduler_alone
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.convergence import converges
from controlplane.scenarios.search.exploring import Campaign
from tests.scenarios.engine.test_convergence import rollout


def maker(careful: bool):
    """Makes two objects, one after the other; the careless one only where neither is there."""

    async def controller(user) -> None:
        await user.sleep(1)
        for _ in range(5):
            there = [await user.exists("ConfigMap", name) for name in ("one", "two")]
            if not any(there) or careful:
                for name, is_there in zip(("one", "two"), there, strict=True):
                    if not is_there:
                        await user.attempt(user.create(config_map(name)))
            await user.sleep(10)

    return controller


def watcher(careful: bool):
    """Adds up changes; the careless one counts looks in which it saw a change, the careful one versions."""

    async def controller(user) -> None:
        seen = 0
        for _ in range(30):
            await user.ctx.point("counter.sync")
            if await user.exists("ConfigMap", "source"):
                found = await user.get("ConfigMap", "source")
                now = int(found.tree["data"]["n"])
                if now != seen:
                    counted = await user.get("ConfigMap", "sum")
                    told = int(counted.tree["data"]["n"]) + (now - seen if careful else 1)
                    await user.patch("ConfigMap", "sum", {"data": {"n": str(told)}})
                    seen = now
            await user.sleep(1)

    return controller


async def changes(user) -> None:
    for name in ("sum", "source"):
        await user.create({**config_map(name), "data": {"n": "0"}})
    for number in range(1, 4):
        await user.sleep(3)
        await user.patch("ConfigMap", "source", {"data": {"n": str(number)}})
    await user.sleep(60)


@pytest.mark.parametrize("careful", [False, True])
def test_who_is_killed_between_two_writes_has_to_go_on(careful) -> None:
    scenario = Scenario(
        "maker",
        workload={"controller": maker(careful)},
        build=scheduler_alone(),
        faults=[intermediate_state("controller", moments=3)],
        invariants=[converges()],
    )
    found = Campaign(plan_of(scenario, nodes=0)).explore(20)
    assert bool(found.findings) is not careful


@pytest.mark.parametrize("careful", [False, True])
def test_who_counts_what_he_sees_misses_what_he_does_not_see(careful) -> None:
    scenario = Scenario(
        "watcher",
        workload={"changes": changes, "controller": watcher(careful)},
        build=scheduler_alone(),
        faults=[unobserved_state("controller")],
        invariants=[converges()],
    )
    found = Campaign(plan_of(scenario, nodes=0)).explore(30)
    assert bool(found.findings) is not careful


@pytest.mark.slow
def test_connections_are_lost_after_something_was_seen() -> None:
    scenario = Scenario(
        "rollout",
        workload=rollout,
        build=lagging_servers(heartbeats=False),
        faults=[stale_state("controller-manager")],
    )
    found = Campaign(plan_of(scenario)).explore(6)
    assert not found.findings, found.findings[0].result.reason
    run = Campaign(plan_of(scenario)).under(1)
    told = [event.data["fault"] for event in run.world.log if event.event == "fault"]
    assert told == ["break", "break"]


@pytest.mark.slow
def test_the_controllers_of_the_library_converge_all_the_same() -> None:
    faults = [
        intermediate_state("controller-manager", times=2),
        unobserved_state("controller-manager"),
    ]
    scenario = Scenario("rollout", workload=rollout, faults=faults, invariants=[converges()])
    found = Campaign(plan_of(scenario)).explore(15)
    assert not found.findings, found.findings[0].result.reason
