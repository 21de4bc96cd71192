"""A kubelet in a world: what fails is tried again, what others overwrite is repaired, and it hears of its node."""

from __future__ import annotations

import pytest

from actors import LinkBroken
from controlplane.client.errors import ApiError
from controlplane.kubelet.loops import pod_workers
from controlplane.kubelet.pod.pod_worker import PodWorker
from controlplane.scenarios import Run, Scenario
from controlplane.scenarios.authoring.faults import restarts
from controlplane.scenarios.authoring.nemesis import nemesis, refused
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.convergence import converges
from controlplane.scenarios.search.exploring import Campaign

PODS = "/registry/pods/"


def run(workload, *, strategy="fifo", seed=0, **options):
    scenario = Scenario("kubelet", workload=workload)
    done = Campaign(plan_of(scenario, nodes=1, **options), strategy).under(seed)
    assert done.result.verdict == "quiescent", done.result.reason
    return done


def found(run: Run, name: str = "web"):
    return next(obj.view for obj in run.objects(PODS) if obj.name == name)


def condition(pod, kind: str) -> str:
    return next(each.status for each in pod.status.conditions if each.type == kind)


def test_a_status_that_was_refused_is_written_by_the_next_pass() -> None:
    async def workload(user) -> None:
        await user.sleep(5)
        refused("node-1", "apiserver", 500, 6).does(user)
        await user.create(pod("web"))
        await user.sleep(60)

    assert found(run(workload)).status.phase == "Running"


@pytest.mark.parametrize("down_at", range(6))
def test_pods_run_although_the_api_server_was_away_for_three_seconds_meanwhile(down_at) -> None:
    async def workload(user) -> None:
        await user.sleep(5)
        await user.create(pod("web", nodeName="node-1"))
        await user.sleep(down_at / 2)
        user.crash("apiserver")
        await user.sleep(3)
        user.restart("apiserver")
        await user.sleep(60)

    web = found(run(workload)).status
    assert (web.phase, web.container_statuses[0].ready) == ("Running", True)


def test_a_kubelet_keeps_the_tree_that_the_api_server_shows(monkeypatch) -> None:
    machines = []

    class Kept(PodWorker):
        def __init__(self, *args, **more) -> None:
            super().__init__(*args, **more)
            machines.append(self)

    monkeypatch.setattr(pod_workers, "PodWorker", Kept)

    async def workload(user) -> None:
        await user.create(pod("web"))
        await user.sleep(60)

    done = run(workload)
    (machine,) = machines
    assert machine.reported["phase"] == "Running"
    assert machine.reported is found(done).tree["status"]


def test_readiness_that_others_took_away_comes_back() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(pod("web"))
        await user.sleep(30)
        not_ready = {"type": "Ready", "status": "False"}
        await user.patch(
            "Pod", "web", {"status": {"conditions": [not_ready]}}, subresource="status"
        )
        seen.append(condition(found(user.run), "Ready"))
        await user.sleep(11)
        seen.append(condition(found(user.run), "Ready"))

    run(workload)
    assert seen == ["False", "True"]


def test_after_a_cut_node_and_pods_are_ready_within_seconds() -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(pod("web"))
        await user.sleep(30)
        user.cut("node-1", "apiserver")
        await user.sleep(100)
        seen.append((node_ready(user.run), condition(found(user.run), "Ready")))
        user.heal("node-1", "apiserver")
        await user.sleep(25)
        seen.append((node_ready(user.run), condition(found(user.run), "Ready")))

    run(workload)
    assert seen == [("Unknown", "False"), ("True", "True")]


def node_ready(run: Run) -> str:
    (node,) = run.objects("/registry/minions/")
    return next(each.status for each in node.view.status.conditions if each.type == "Ready")


def test_a_deletion_during_a_cut_is_not_missed() -> None:
    async def workload(user) -> None:
        await user.create(pod("web"))
        await user.sleep(30)
        user.cut("node-1", "apiserver")
        await user.delete("Pod", "web")
        await user.sleep(20)
        user.heal("node-1", "apiserver")
        await user.sleep(60)

    assert run(workload).objects(PODS) == []


def test_a_pod_may_need_a_label_that_its_node_got_later() -> None:
    async def workload(user) -> None:
        await user.sleep(5)
        await user.patch("Node", "node-1", {"metadata": {"labels": {"disk": "ssd"}}})
        tree = pod("web", nodeName="node-1")
        tree["spec"]["nodeSelector"] = {"disk": "ssd"}
        await user.create(tree)
        await user.sleep(30)

    for seed in range(10):
        assert found(run(workload, strategy="random-walk", seed=seed)).status.phase == "Running"


def test_a_pod_that_selects_another_node_is_rejected_and_a_later_label_lets_later_ones_run() -> (
    None
):
    async def workload(user) -> None:
        await user.create(_picky("early"))
        await user.sleep(20)
        await user.patch("Node", "node-1", {"metadata": {"labels": {"disk": "ssd"}}})
        await user.create(_picky("late"))
        await user.sleep(20)

    for seed, strategy in enumerate(["fifo", "random-walk", "random-walk"]):
        done = run(workload, strategy=strategy, seed=seed)
        early = found(done, "early").status
        assert (early.phase, early.reason) == ("Failed", "NodeAffinity")
        assert early.message == (
            "Pod was rejected: Predicate NodeAffinity failed: "
            "node(s) didn't match Pod's node affinity/selector"
        )
        assert found(done, "late").status.phase == "Running"


def _picky(name: str) -> dict:
    tree = pod(name, nodeName="node-1")
    tree["spec"]["nodeSelector"] = {"disk": "ssd"}
    return tree


def test_a_kubelet_survives_a_server_that_refuses_everything() -> None:
    async def workload(user) -> None:
        await user.create(pod("web"))
        await user.sleep(20)
        refused("node-1", "apiserver", 500, 40).does(user)
        await user.sleep(120)

    done = run(workload)
    assert done.result.ok


@pytest.mark.slow
def test_a_namesake_is_not_written_to() -> None:
    """A pod is deleted by force and recreated at once: what the kubelet says of the old one never reaches the new."""

    async def workload(user) -> None:
        await user.create(pod("web", nodeName="node-1"))
        await user.sleep(user.choose(6, "how long"))
        await user.delete("Pod", "web", grace_period_seconds=0)
        await user.create(pod("web", nodeName="node-9"))
        await user.sleep(60)

    for seed in range(30):
        done = run(workload, strategy="random-walk", seed=seed)
        assert found(done).status.phase in ("", "Pending")
        assert not found(done).status.container_statuses


async def rollout(user) -> None:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
    }
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "namespace": "default"}
    tree = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
    await insisted(user, lambda: user.apply(tree))
    await user.sleep(10)
    scaled = {"spec": {"replicas": 3}}
    await insisted(user, lambda: user.patch("apps/v1/Deployment", "web", scaled))
    await user.sleep(900)


async def insisted(user, call) -> None:
    while True:
        try:
            await call()
        except (ApiError, LinkBroken):
            await user.sleep(1)
        else:
            return


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([restarts("node-1", 2)], marks=pytest.mark.nightly, id="restarts"),
        pytest.param([nemesis(2)], marks=pytest.mark.slow, id="any"),
    ],
)
def test_the_cluster_ends_the_same_whatever_fails(faults) -> None:
    scenario = Scenario("rollout", workload=rollout, faults=faults, invariants=[converges()])
    found = Campaign(plan_of(scenario)).explore(20)
    assert not found.findings, found.findings[0].result.reason


@pytest.mark.parametrize("restarts", [False, True])
def test_a_pod_that_another_client_fails_is_stopped_and_stays_failed(restarts) -> None:
    seen = []

    async def workload(user) -> None:
        await user.create(pod("web"))
        await user.sleep(30)
        if restarts:
            user.crash("node-1")
        failed = {"status": {"phase": "Failed", "reason": "Lost"}}
        await user.patch("Pod", "web", failed, subresource="status")
        if restarts:
            user.restart("node-1")
        await user.sleep(30)
        (sandbox,) = user.run.cluster.machines["node-1"].sandboxes.values()
        seen.extend(each.name for each in sandbox.running())

    web = found(run(workload)).status
    assert seen == []
    assert (web.phase, web.container_statuses[0].ready) == ("Failed", False)
