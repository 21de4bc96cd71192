"""The controllers with a real API server, scheduler and kubelets."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog, RandomWalk
from actors.testing import assert_deterministic
from controlplane.api.times import SECOND
from controlplane.client.loops.clientset import DEPLOYMENTS, NODES, PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree

MERGE = "application/merge-patch+json"


def deployment(replicas: int, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "one"}], "terminationGracePeriodSeconds": 1},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template,
            **spec,
        },
    }


NEW_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}}


def cluster(*users: Any, strategy: Any = None, nodes: int = 2, **config: Any) -> Cluster:
    trees = [node_tree(f"node-{number}") for number in range(nodes)]
    made = Cluster(ClusterConfig(nodes=trees, **config), strategy=strategy, log=EventLog())
    for number, user in enumerate(users):
        made.user(f"user-{number}", user)
    return made


def running(made: Cluster) -> list[str]:
    """Images of the pods that run and stay."""
    return sorted(
        pod.view.spec.containers[0].image
        for pod in made.objects("/registry/pods/")
        if pod.view.status.phase == "Running" and pod.view.metadata.deletion_timestamp is None
    )


def messages(made: Cluster, kind: str) -> list[str]:
    return [
        event.tree["message"]
        for event in made.objects("/registry/events/")
        if event.tree["involvedObject"]["kind"] == kind
    ]


def test_a_deployment_is_rolled_out_scaled_and_rolled_to_a_new_template():
    found: list[list[str]] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, deployment(3))
        await ctx.sleep(20 * SECOND)
        found.append(running(made))
        await client.patch(DEPLOYMENTS, "default", "web", {"spec": {"replicas": 5}}, kind=MERGE)
        await ctx.sleep(20 * SECOND)
        found.append(running(made))
        await client.patch(DEPLOYMENTS, "default", "web", NEW_IMAGE)
        await ctx.sleep(40 * SECOND)
        found.append(running(made))

    made = cluster(user)
    result = made.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    assert found == [["one"] * 3, ["one"] * 5, ["two"] * 5]
    (status,) = (each.tree["status"] for each in made.objects("/registry/deployments/"))
    assert status["updatedReplicas"] == status["availableReplicas"] == 5
    assert [each["reason"] for each in status["conditions"]] == [
        "MinimumReplicasAvailable",
        "NewReplicaSetAvailable",
    ]
    told = messages(made, "Deployment")
    assert told[0].endswith("from 0 to 3")
    assert told[1].endswith("from 3 to 5")


def test_recreate_lets_all_old_pods_go_first():
    together: list[set[str]] = []

    def images_together() -> None:
        images = {
            pod.view.spec.containers[0].image
            for pod in made.objects("/registry/pods/")
            if pod.view.status.phase == "Running"
        }
        together.append(images)

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, deployment(2, strategy={"type": "Recreate"}))
        await ctx.sleep(20 * SECOND)
        await client.patch(DEPLOYMENTS, "default", "web", NEW_IMAGE)

    made = cluster(user)
    made.world.observe(1, images_together)
    assert made.world.run("bare").verdict == "quiescent"
    assert running(made) == ["two", "two"]
    assert {"one", "two"} not in together


def test_deleted_pods_are_replaced():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, deployment(3))
        await ctx.sleep(20 * SECOND)
        for pod in (await client.list(PODS)).items[:2]:
            await client.delete(PODS, "default", pod.name)

    made = cluster(user)
    assert made.world.run("bare").verdict == "quiescent"
    assert running(made) == ["one"] * 3
    assert len([text for text in messages(made, "ReplicaSet") if text.startswith("Created")]) == 5


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_schedule_there_are_as_many_pods_as_wanted(seed):
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, deployment(3))
        await ctx.sleep(ctx.choose("pause", 8, "before the new template") * SECOND // 4)
        await client.patch(DEPLOYMENTS, "default", "web", NEW_IMAGE)

    made = cluster(user, strategy=RandomWalk(seed))
    result = made.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    assert running(made) == ["two"] * 3


def test_a_controller_manager_that_restarts_goes_on():
    async def user(ctx: Context) -> None:
        await Client(ctx).create(DEPLOYMENTS, deployment(4))
        await ctx.sleep(SECOND // 2)
        ctx.faults.crash("controller-manager")
        await ctx.sleep(SECOND)
        ctx.faults.restart("controller-manager")

    made = cluster(user)
    assert made.world.run("bare").verdict == "quiescent"
    assert running(made) == ["one"] * 4


def test_a_node_that_falls_silent_is_tainted_and_its_pods_move():
    silent: dict[str, Any] = {}

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        spec = deployment(4)
        spec["spec"]["template"]["spec"]["tolerations"] = [
            {
                "key": f"node.kubernetes.io/{kind}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 5,
            }
            for kind in ("unreachable", "not-ready")
        ]
        await client.create(DEPLOYMENTS, spec)
        await ctx.sleep(20 * SECOND)
        ctx.faults.crash("node-0")
        await ctx.sleep(100 * SECOND)
        node = (await client.get(NODES, "", "node-0")).tree
        silent["taints"] = [(each["key"], each["effect"]) for each in node["spec"]["taints"]]
        silent["ready"] = node["status"]["conditions"][-1]["status"]
        silent["pods"] = {
            pod.view.spec.node_name
            for pod in (await client.list(PODS)).items
            if pod.view.metadata.deletion_timestamp is None
        }

    made = cluster(user, nodes=3)
    assert made.world.run("bare").verdict == "quiescent"
    unreachable = "node.kubernetes.io/unreachable"
    assert silent["taints"] == [(unreachable, "NoSchedule"), (unreachable, "NoExecute")]
    assert silent["ready"] == "Unknown"
    assert silent["pods"] == {"node-1", "node-2"}
    assert "Node node-0 status is now: NodeNotReady" in messages(made, "Node")
    assert any(
        text.startswith("Marking for deletion Pod default/web-") for text in messages(made, "Pod")
    )


@pytest.mark.parametrize("seed", range(4))
def test_crashes_and_broken_connections_are_survived(seed):
    """API server, controller manager and scheduler come back, and everything is as it was wanted."""

    async def user(ctx: Context) -> None:
        await Client(ctx).create(DEPLOYMENTS, deployment(3))

    async def faults(ctx: Context) -> None:
        for _ in range(3):
            await ctx.sleep((1 + ctx.choose("pause", 8, "before a fault")) * SECOND // 3)
            if ctx.choose("fault", 3, "break or crash") == 0:
                ctx.faults.break_link("controller-manager", "apiserver")
                continue
            victims = ["apiserver", "controller-manager", "scheduler"]
            victim = victims[ctx.choose("victim", len(victims), "who crashes")]
            ctx.faults.crash(victim)
            await ctx.sleep(SECOND)
            ctx.faults.restart(victim)

    made = cluster(user, faults, strategy=RandomWalk(seed))
    result = made.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    assert running(made) == ["one"] * 3


@pytest.mark.slow
def test_a_rollout_is_deterministic_on_both_drivers():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(DEPLOYMENTS, deployment(2))
        await ctx.sleep(5 * SECOND)
        await client.patch(DEPLOYMENTS, "default", "web", NEW_IMAGE)

    assert_deterministic(lambda: cluster(user, strategy=RandomWalk(7)).world)
