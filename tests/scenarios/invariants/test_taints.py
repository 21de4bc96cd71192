"""Taint eviction against taints: timers too many or too few, and deletions that count as begun and are over."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from controlplane.client.indexer import Indexer
from controlplane.client.resources import NODES, PODS
from controlplane.controllers.lifecycle.taint_eviction import Evictions, Timer
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.taints import evictions_follow_taints
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign
from tests.scenarios.invariants.stored import StoredRun, made

LAW = evictions_follow_taints("controller-manager")
TAINT = {"key": "down", "effect": "NoExecute"}
FOR_EVER = {"key": "down", "operator": "Exists", "effect": "NoExecute"}
FOR_A_WHILE = {**FOR_EVER, "tolerationSeconds": 20}
LATER = Timer(0, 20)


def pod(*tolerations: Any, **metadata: Any) -> Any:
    return made("Pod", "web", {"nodeName": "node-1", "tolerations": list(tolerations)}, **metadata)


def node(*taints: Any) -> Any:
    return made("Node", "node-1", {"taints": list(taints)}, namespace="")


def said(
    found: Any, on: Any, timer: Timer | str | None = "", *, uid: str = "web", **state: Any
) -> str | None:
    """Return the violation for a pod (or None) and its node in caches and store, with a timer, or none for ""."""
    run = StoredRun(*([found] if found else []), *([on] if on else []))
    run.world.faults.injected = state.get("injected", set())
    run.world.incarnation = lambda _actor: 1
    run.world.count_tasks = lambda _actor, _name: state.get("running", 0)

    def informer(*objects: Any) -> Any:
        store: Indexer[Any] = Indexer()
        for each in objects:
            if each is not None:
                store.put(each)
        store.resource_version = "1"
        return SimpleNamespace(has_synced=True, told_all=True, store=store)

    controller = SimpleNamespace(
        has_changes=state.get("has_changes", False),
        scheduled=lambda: {} if timer == "" else {"default/web": (uid, timer)},
    )
    probe = SimpleNamespace(
        name="controller-manager",
        incarnation=1,
        taint_eviction=controller,
        informers={PODS: informer(found), NODES: informer(on)},
    )
    run.cluster = SimpleNamespace(managers=[probe])
    return LAW.check(run)  # type: ignore[arg-type]


@pytest.mark.parametrize("tolerations", [(), (FOR_A_WHILE,)])
def test_a_pod_that_is_driven_away_has_a_timer(tolerations) -> None:
    missing = "default/web is driven away by its node, and no deletion is scheduled"
    assert said(pod(*tolerations), node(TAINT)) == missing
    assert said(pod(*tolerations), node(TAINT), LATER) is None
    assert said(pod(*tolerations), node(TAINT), injected={"break"}) is None
    assert said(pod(*tolerations), node(TAINT), has_changes=True) is None
    assert said(pod(*tolerations, deletionTimestamp="2026-01-01T00:00:00Z"), node(TAINT)) is None


def test_a_timer_is_for_a_pod_that_its_node_drives_away() -> None:
    stays = "a deletion of default/web is scheduled, and its node lets it stay"
    assert said(pod(FOR_EVER), node(TAINT)) is None
    assert said(pod(FOR_EVER), node(TAINT), LATER) == stays
    assert said(pod(), node(), LATER) == stays
    assert said(pod(), None, LATER) is None, "timers of pods on a node that is gone stay"
    assert said(pod(), node(), LATER, uid="former") is None
    assert said(None, node(TAINT), LATER) == (
        "a deletion of default/web is scheduled, and there is no such pod"
    )


def test_a_deletion_that_has_begun_goes_on() -> None:
    assert said(pod(), node(TAINT), None, running=1) is None
    assert said(pod(), node(TAINT), None) == (
        "deletions of default/web count as begun, and 0 go on"
    )


@pytest.mark.slow
@pytest.mark.parametrize("mistake", ["finished", "cancel"])
def test_search_finds_timers_that_are_not_taken_back(mistake, monkeypatch) -> None:
    monkeypatch.setattr(Evictions, mistake, lambda *_: False)
    churn = loading.from_module(loading.NAMED["controller-churn"])
    plan = plan_of(churn, part="lost-nodes")
    alone = evolve(plan.scenario, invariants=(LAW,))
    seen = Campaign(evolve(plan, scenario=alone)).explore(6)
    assert seen.findings, f"nothing broke in {seen.schedules} schedules"
    assert LAW.name in seen.findings[0].result.reason
