"""The picture that the scheduler has of nodes and pods: what it overlooks is found within moments."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.churns.parts import DRAWN
from controlplane.scenarios.churns.scheduler_churn import BINDERS, SCENARIO
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search.exploring import Campaign
from controlplane.scheduler import eventhandlers
from controlplane.scheduler.queue.scheduling_queue import PriorityQueue


async def one_after_the_other(user) -> None:
    """A pod that waits until another one leaves its room."""
    await user.create(pod("a", "2"))
    await user.sleep(3)
    await user.create(pod("b", "2"))
    await user.sleep(3)
    await user.delete("Pod", "a", grace_period_seconds=0)
    await user.sleep(20)


async def one_before_the_other(user) -> None:
    """A pod that takes another one's room, and is held before it is bound."""
    await user.create(pod("a", "2", priority=0))
    await user.sleep(3)
    tree = pod("b", "2", priority=100)
    tree["metadata"]["labels"] = {"hold": "yes"}
    await user.create(tree)
    await user.sleep(20)
    await user.patch("Pod", "b", {"metadata": {"labels": {"hold": None}}})
    await user.sleep(20)


def broken(workload: Any, drawn: tuple[str, ...] = ()) -> str | None:
    """Return the violation of this workload on one node, None if the invariants hold."""

    async def main(user) -> None:
        user.notes[DRAWN] = drawn
        await workload(user)

    scenario = evolve(SCENARIO, workload=main)
    result = Campaign(plan_of(scenario, nodes=1), "fifo").under(0).result
    assert result.verdict in ("quiescent", "violated"), result.reason
    return result.reason if result.verdict == "violated" else None


@pytest.mark.parametrize("workload", [one_after_the_other, one_before_the_other])
def test_the_laws_hold_for_the_scheduler_as_it_is(workload) -> None:
    assert broken(workload) is None


def test_a_pod_that_no_event_wakes_is_found_unless_other_clients_bind_pods(monkeypatch) -> None:
    monkeypatch.setattr(eventhandlers, "_move", lambda *_: iter(()))
    said = broken(one_after_the_other)
    assert said is not None
    assert said.startswith("no pod sleeps beside room"), said
    assert "no pod sleeps" not in str(broken(one_after_the_other, (BINDERS,)))


def test_room_that_is_kept_for_an_assumed_pod_besides_its_own_is_found(monkeypatch) -> None:
    monkeypatch.setattr(PriorityQueue, "delete_nominated_pod_if_exists", lambda *_: None)
    said = broken(one_before_the_other)
    assert said is not None
    assert said.startswith("an assumed pod is counted once: b counts on node-1"), said
