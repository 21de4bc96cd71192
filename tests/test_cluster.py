"""A whole cluster under everyday life and faults: it always gets to what was asked for."""

from __future__ import annotations

import pytest

from actors import Context, EventLog, LinkBroken, RandomWalk
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import DEPLOYMENTS, PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.cluster_config import APISERVER, CONTROLLER_MANAGER, SCHEDULER
from tests.test_determinism import deployment

SECOND = 1_000_000_000


def cluster_with(user, *, nodes: int = 2, strategy=None, **config) -> Cluster:
    trees = tuple(node_tree(f"node-{number}", cpu="4") for number in range(1, nodes + 1))
    cluster = Cluster(ClusterConfig(nodes=trees, **config), strategy=strategy, log=EventLog())
    cluster.user("user", user)
    return cluster


def run(cluster: Cluster):
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    return result


def pods(cluster: Cluster):
    return [obj.view for obj in cluster.objects("/registry/pods/")]


def plain_pod(name: str, **spec) -> dict:
    container = {"name": "main", "image": "app:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **spec},
    }


def test_a_pod_is_scheduled_started_and_ready():
    async def user(ctx: Context) -> None:
        await Client(ctx).create(PODS, plain_pod("web"))

    cluster = cluster_with(user)
    run(cluster)
    (pod,) = pods(cluster)
    assert pod.status.phase == "Running"
    conditions = {found.type: found.status for found in pod.status.conditions}
    assert conditions == dict.fromkeys(
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"],
        "True",
    )
    reasons = [
        obj.view.reason
        for obj in cluster.objects("/registry/events/")
        if obj.view.involved_object.name == "web"
    ]
    # A node is tainted until its first report has been seen, so an attempt may have failed before.
    assert [reason for reason in reasons if reason != "FailedScheduling"] == [
        "Scheduled",
        "Pulling",
        "Pulled",
        "Created",
        "Started",
    ]


def test_a_deleted_pod_terminates_gracefully_and_is_gone():
    seen: list[tuple[int, str]] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        tree = plain_pod("web", terminationGracePeriodSeconds=10)
        tree["metadata"]["annotations"] = {"emulate.controlplane/stop-seconds": "4"}
        await client.create(PODS, tree)
        await ctx.sleep(30 * SECOND)
        await client.delete(PODS, "default", "web")
        start = ctx.now
        while True:
            try:
                await client.get(PODS, "default", "web")
            except ApiError as error:
                assert error.code == 404
                seen.append((ctx.now - start, error.reason))
                return
            await ctx.sleep(SECOND // 2)

    cluster = cluster_with(user)
    run(cluster)
    assert pods(cluster) == []
    assert [(after // SECOND, reason) for after, reason in seen] == [(5, "NotFound")]


def test_a_crashing_container_is_restarted_with_growing_backoff():
    async def user(ctx: Context) -> None:
        tree = plain_pod("flaky")
        tree["metadata"]["annotations"] = {
            "emulate.controlplane/run-seconds": "1",
            "emulate.controlplane/exit-codes": "1",
        }
        await Client(ctx).create(PODS, tree)
        await ctx.sleep(120 * SECOND)
        await Client(ctx).delete(PODS, "default", "flaky", grace_period_seconds=0)

    cluster = cluster_with(user)
    run(cluster)
    reasons = [obj.view.reason for obj in cluster.objects("/registry/events/")]
    assert "BackOff" in reasons


def test_a_kubelet_that_crashes_finds_its_containers_again():
    ids: list[str] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(PODS, plain_pod("web"))
        await ctx.sleep(20 * SECOND)
        ids.append(
            (await client.get(PODS, "default", "web"))
            .view.status.container_statuses[0]
            .container_id
        )
        ctx.faults.crash("node-1")
        await ctx.sleep(5 * SECOND)
        ctx.faults.restart("node-1")
        await ctx.sleep(20 * SECOND)
        ids.append(
            (await client.get(PODS, "default", "web"))
            .view.status.container_statuses[0]
            .container_id
        )

    cluster = cluster_with(user, nodes=1)
    run(cluster)
    (pod,) = pods(cluster)
    assert pod.status.phase == "Running"
    assert pod.status.container_statuses[0].restart_count == 0
    assert ids[0] == ids[1] != ""


@pytest.mark.parametrize("victim", [APISERVER, SCHEDULER, CONTROLLER_MANAGER])
@pytest.mark.parametrize("seed", range(4))
def test_no_acknowledged_write_is_lost_when_a_component_crashes(victim, seed):
    acknowledged: list[str] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for number in range(6):
            name = f"pod-{number}"
            try:
                await client.create(PODS, plain_pod(name))
            except LinkBroken:
                await ctx.sleep(SECOND)
                continue
            acknowledged.append(name)
            await ctx.sleep(SECOND // 4)
        while True:
            try:
                await client.create(DEPLOYMENTS, deployment(2))
            except LinkBroken:
                await ctx.sleep(SECOND)
            else:
                return

    async def chaos(ctx: Context) -> None:
        await ctx.sleep((1 + ctx.choose("fault", 12, "when")) * SECOND // 8)
        ctx.faults.crash(victim)
        await ctx.sleep((1 + ctx.choose("fault", 4, "how long")) * SECOND // 2)
        ctx.faults.restart(victim)

    cluster = cluster_with(user, strategy=RandomWalk(seed))
    cluster.user("chaos", chaos)
    run(cluster)
    found = {pod.name: pod for pod in pods(cluster)}
    assert set(acknowledged) <= set(found)
    assert {pod.status.phase for pod in found.values()} == {"Running"}
    assert sum(1 for name in found if name.startswith("web-")) == 2


def test_a_pod_that_fits_nowhere_waits_and_is_scheduled_when_room_comes():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        big = {"resources": {"requests": {"cpu": "3"}}, "name": "main", "image": "app:1"}
        for name in ("first", "second"):
            tree = plain_pod(name, terminationGracePeriodSeconds=1)
            tree["spec"]["containers"] = [big]
            await client.create(PODS, tree)
        await ctx.sleep(30 * SECOND)
        waiting = (await client.get(PODS, "default", "second")).view
        assert waiting.spec.node_name == ""
        assert waiting.status.conditions[0].message.startswith(
            "0/1 nodes are available: 1 Insufficient cpu."
        )
        await client.delete(PODS, "default", "first")

    cluster = cluster_with(user, nodes=1)
    run(cluster)
    (pod,) = pods(cluster)
    assert (pod.name, pod.status.phase, pod.spec.node_name) == ("second", "Running", "node-1")


def test_a_server_that_starts_over_a_store_with_definitions_serves_them():
    from controlplane.client.resources import Resource
    from controlplane.scenarios.churns import storage_world as storage

    seen = []
    classes = Resource("snapshot.storage.k8s.io", "v1", "volumesnapshotclasses")

    async def user(ctx):
        ctx.faults.crash("apiserver")
        ctx.faults.restart("apiserver")
        seen.append((await Client(ctx).list(classes)).items)

    cluster = Cluster(
        ClusterConfig(kubelets=False, controllers=False, heartbeats=False, store=storage.store())
    )
    cluster.user("user", user)
    run(cluster)
    assert [list(items) for items in seen] == [[]]


@pytest.mark.parametrize(("release", "told"), [("1.36", "v1.36.2"), ("1.32", "v1.32.0")])
def test_servers_say_which_release_they_are(release, told):
    build = Cluster(ClusterConfig(release=release)).server_options().build
    assert (build["gitVersion"], build["minor"]) == (told, release[2:])
    assert ("emulationMinor" in build) == (release == "1.36")
