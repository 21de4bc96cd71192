"""Convergence: after faults the world ends as without them, unless somebody keeps in memory what must last."""

from __future__ import annotations

import pytest

from controlplane.api.object import Object
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.faults import restarts
from controlplane.scenarios.authoring.workloads import config_map
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.engine.convergence import difference, end_of, unstable
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants import convergence
from controlplane.scenarios.invariants.convergence import converges
from controlplane.scenarios.search.exploring import Campaign


def config(name: str, generated: bool = False, **data: str) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid of {name}"}
    if generated:
        metadata["generateName"] = name[:-1]
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return Object(tree)


def test_identity_is_masked_and_generated_names_are_counted() -> None:
    one = end_of([config("web-a", True, n="1"), config("web-b", True, n="2")])
    other = end_of([config("web-y", True, n="2"), config("web-x", True, n="1")])
    assert one == other
    fewer = end_of([config("web-y", True, n="2")])
    assert difference(fewer, one, {}) == (
        "ConfigMap default/web-*: there are 1, and 2 when nothing fails"
    )


def test_what_differs_without_faults_is_masked() -> None:
    ends = [end_of([config("a", n=n, m="same")]) for n in ("1", "2")]
    masks = unstable(ends)
    assert difference(end_of([config("a", n="3", m="same")]), ends[0], masks) is None
    assert difference(end_of([config("a", n="3", m="other")]), ends[0], masks) == (
        'ConfigMap default/a: data.m is "other", and "same" when nothing fails'
    )
    assert difference(end_of([]), ends[0], masks) == (
        "ConfigMap default/a: there are 0, and 1 when nothing fails"
    )


async def rollout(user) -> None:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "namespace": "default"}
    await user.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    )
    await user.sleep(10)
    await user.patch("apps/v1/Deployment", "web", {"spec": {"replicas": 3}})
    await user.sleep(600)


@pytest.mark.slow
def test_a_rollout_ends_the_same_whatever_crashes() -> None:
    scenario = Scenario(
        "rollout",
        workload=rollout,
        faults=[restarts("controller-manager", 2), restarts("scheduler", 1)],
        invariants=[converges()],
    )
    found = Campaign(plan_of(scenario)).explore(25)
    assert not found.findings, found.findings[0].result.reason


async def mistaken(user) -> None:
    """Serves three visitors, also over restarts; but how many it counts only in memory."""
    await user.attempt(user.create({**config_map("visitors"), "data": {"served": "0"}}))
    count = 0
    while True:
        await user.sleep(10)
        served = int((await user.get("ConfigMap", "visitors")).tree["data"]["served"])
        if served == 3:
            return
        count += 1
        data = {"served": str(served + 1), "count": str(count)}
        await user.patch("ConfigMap", "visitors", {"data": data})


def test_what_is_kept_in_memory_is_lost() -> None:
    for faults, fails in (((), False), ((restarts("counter", 1, every_s=4),), True)):
        scenario = Scenario(
            "counter",
            workload={"counter": mistaken},
            build=scheduler_alone(),
            faults=faults,
            invariants=[converges()],
        )
        found = Campaign(plan_of(scenario, nodes=0)).explore(30)
        assert bool(found.findings) is fails
    assert found.findings[0].result.reason.startswith(
        "the world ends as when nothing fails: ConfigMap default/visitors: data.count is "
    )


def test_the_calm_runs_of_a_search_are_made_once(monkeypatch) -> None:
    made = []
    plain = convergence._calm
    monkeypatch.setattr(convergence, "_calm", lambda run: made.append(run) or plain(run))
    scenario = Scenario(
        "counter",
        workload={"counter": mistaken},
        build=scheduler_alone(),
        invariants=lambda _setting: [converges()],  # asked anew for each run
    )
    plan = plan_of(scenario, nodes=0)
    assert not Campaign(plan).explore(5).findings
    assert len(made) == 1
    assert not Campaign(plan.with_options(nodes=1)).explore(2).findings
    assert len(made) == 2, "another plan is other runs"


async def draws(user) -> None:
    user.choose(2, "anything")


def test_a_workload_that_draws_is_a_mistake() -> None:
    scenario = Scenario("draws", workload=draws, build=scheduler_alone(), invariants=[converges()])
    found = Campaign(plan_of(scenario, nodes=0)).explore(3)
    assert found.findings[0].result.verdict == "invariant-error"
    assert "the workload draws" in found.findings[0].result.reason
