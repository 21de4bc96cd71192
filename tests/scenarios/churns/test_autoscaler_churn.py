"""The churn of a cluster that grows and shrinks: it holds, reaches what it is about, and notices what is taken away."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from controlplane.api.pod import Pod
from controlplane.autoscaler import drain
from controlplane.autoscaler.cloud.file import node_groups_of
from controlplane.autoscaler.cloud.fleet import Fleet
from controlplane.autoscaler.process.drain import Drainer
from controlplane.client import calls
from controlplane.client.resources import PODS
from controlplane.decisions import immediate
from controlplane.scenarios.churns import autoscaler_churn
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.autoscaler import PODS_LEAVE_BEFORE_THEIR_NODE
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign

CHURN = loading.from_module(loading.NAMED["autoscaler-churn"])


def broken(seeds: int, wanted: str, scenario=CHURN, **options: Any) -> bool:
    """Return whether one of these runs broke for this reason."""
    campaign = Campaign(plan_of(scenario, **options))
    for seed in range(seeds):
        result = campaign.under(seed).result
        if not result.ok and wanted in str(result.reason):
            return True
    return False


def reached(seeds: int, **options: Any) -> set[str]:
    """Return what was reached in runs none of which may break."""
    campaign = Campaign(plan_of(CHURN, **options))
    found: dict[str, None] = {}
    for seed in range(seeds):
        run = campaign.under(seed)
        assert run.result.ok, (seed, run.result.reason)
        found.update(dict.fromkeys(s.name for s in CHURN.sometimes if s.reached(run)))
    return set(found)


@pytest.mark.slow
@pytest.mark.parametrize("crashes", [False, True])
def test_nothing_breaks(crashes: bool) -> None:
    wanted = {"the cluster grows", "a node is deleted"}
    assert wanted <= reached(4, crashes=crashes)


@pytest.mark.nightly
def test_nothing_breaks_while_the_cloud_fails() -> None:
    assert reached(40) == {each.name for each in CHURN.sometimes}


@pytest.mark.slow
def test_pods_that_are_not_evicted_go_with_their_node(monkeypatch) -> None:
    monkeypatch.setattr(Drainer, "drain", immediate(lambda *_: None))
    assert broken(6, "no node is deleted with pods on it")


@pytest.mark.slow
def test_an_instance_that_the_cloud_forgets_is_missed(monkeypatch) -> None:
    monkeypatch.setattr(Fleet, "runs", lambda *_: False)
    assert broken(2, "each instance has its Node at rest")


@pytest.mark.nightly
def test_requests_without_end_are_noticed(monkeypatch) -> None:
    monkeypatch.setattr(Fleet, "increase", lambda *_: ("", []))
    assert broken(2, "the size of the cluster settles")


def test_a_budget_that_is_not_kept_is_noticed(monkeypatch) -> None:
    """Evictions become deletions."""

    def evict(self: Drainer, pod: Pod, _until: int, _most: int, **_: bool) -> Any:
        yield from calls.delete(PODS, pod.metadata.namespace, pod.metadata.name)
        return ""

    monkeypatch.setattr(Drainer, "_evict", evict)
    monkeypatch.setattr(drain, "_budget", lambda *_: None)
    assert broken(8, "a drain keeps to the budget")


# -- a bind on its way while its node goes ------------------------------------------------------------


def late_bind(delay: str) -> Any:
    """Two nodes, of which the empty one is deleted at 50 s, and a pod that the scheduler then puts there."""
    template = {"status": {"capacity": {"cpu": "2", "memory": "8Gi"}}}
    flags = {"scale-down-unneeded-time": "30s", "node-delete-delay-after-taint": delay}
    group = {"name": "pool", "minSize": 1, "maxSize": 2, "size": 2, "template": template}

    async def main(user) -> None:
        await user.sleep(5)
        await user.create(autoscaler_churn._deployment("early", 1, "1500m"))
        await user.sleep(44.5)
        await user.create(autoscaler_churn._deployment("late", 1, "600m"))
        await user.sleep(30)

    return evolve(
        CHURN,
        workload=main,
        build=lambda setting: evolve(autoscaler_churn.build(setting), **parts(flags, group)),
        invariants=(PODS_LEAVE_BEFORE_THEIR_NODE,),
        sometimes=(),
    )


def parts(flags: dict[str, Any], group: dict[str, Any]) -> dict[str, Any]:
    from controlplane.autoscaler.loops.adding import cloud_of
    from controlplane.autoscaler.process.controller import autoscaler_of

    content = node_groups_of({"flags": flags, "nodeGroups": [group]}, "groups")
    return {
        "own_controllers": (autoscaler_of(content),),
        "additions": (cloud_of(content.groups),),
    }


@pytest.mark.parametrize(("delay", "lost"), [("0s", True), ("5s", False)])
def test_the_delay_after_the_taint_is_for_binds_on_their_way(delay: str, lost: bool) -> None:
    plan = ("delay request scheduler create pods/binding #2 for 2",)
    campaign = Campaign(plan_of(late_bind(delay), plan=plan))
    result = campaign.under(0).result
    assert result.ok != lost, result.reason
    if lost:
        assert "no node is deleted with pods on it" in str(result.reason)
