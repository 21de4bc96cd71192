"""Reports of NUMA zones, and the plugin that reads them, in a whole cluster."""

from __future__ import annotations

import pytest

from actors import Context, EventLog, RandomWalk
from controlplane.client.loops.clientset import NODES, PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.gates import LATEST
from controlplane.scenarios.engine.kubelets import equipment, equipped
from controlplane.scheduler.community.pod_fingerprint import fingerprint
from controlplane.scheduler_plugins.definitions import installation
from controlplane.scheduler_plugins.loops.topology_updater import actor_of
from tests.scheduler.loops.test_points import overtaken
from tests.scheduler_plugins.worlds import EXAMPLES, configured, events
from tests.test_cluster import SECOND, plain_pod, pods, run

MACHINE = "sockets=2 cores=4 memory=8Gi"
REPORTS = "/registry/topology.node.k8s.io/noderesourcetopologies/"


def topology(**args) -> dict:
    """A scheduler with the plugin."""
    plugins = "{multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}"
    return configured(plugins, args, "NodeResourceTopologyMatch")


def numa_world(user, config, *, nodes: int = 1, strategy=None) -> Cluster:
    """A cluster of nodes with two NUMA zones of four CPUs each, of which one is reserved."""
    given = [node_tree(f"node-{number}", cpu="8", memory="16Gi") for number in range(1, nodes + 1)]
    trees, settings = equipped(given, str(EXAMPLES / "numa-kubelet.yaml"), MACHINE, LATEST)
    cluster = Cluster(
        ClusterConfig(
            nodes=trees,
            kubelet_settings=settings,
            installed=installation(),
            topology_updates_ns=60 * SECOND,
            **config,
        ),
        strategy=strategy,
        log=EventLog(),
    )
    cluster.user("user", user)
    return cluster


def exclusive(name: str, cpus: int, **spec) -> dict:
    tree = plain_pod(name, **spec)
    amounts = {"cpu": str(cpus)}
    tree["spec"]["containers"][0]["resources"] = {
        "requests": {**amounts, "memory": "1Mi"},
        "limits": {**amounts, "memory": "1Mi"},
    }
    return tree


def free(cluster) -> dict[str, list[str]]:
    """The free CPUs of each zone, by node."""
    return {
        obj.name: [
            each["available"]
            for zone in obj.tree["zones"]
            for each in zone["resources"]
            if each["name"] == "cpu"
        ]
        for obj in cluster.objects(REPORTS)
    }


def attributes(cluster) -> dict[str, str]:
    (report,) = cluster.objects(REPORTS)
    return {each["name"]: each["value"] for each in report.tree["attributes"]}


def test_a_node_reports_its_zones_before_and_after_it_gave_cpus():
    async def user(ctx: Context) -> None:
        seen.append(free(cluster))
        await ctx.sleep(2 * SECOND)
        await Client(ctx).create(PODS, exclusive("one", 2))

    seen: list[dict] = []
    cluster = numa_world(user, {})
    run(cluster)
    assert seen == [{"node-1": ["3", "4"]}]
    assert free(cluster) == {"node-1": ["1", "4"]}
    assert attributes(cluster) == {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
        "nodeTopologyPodsFingerprint": fingerprint([("default", "one")]),
    }


def test_a_pod_without_cpus_of_its_own_is_reported_at_the_next_interval():
    async def user(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        await Client(ctx).create(PODS, plain_pod("one"))
        await ctx.sleep(20 * SECOND)
        seen.append(attributes(cluster)["nodeTopologyPodsFingerprint"])
        await ctx.sleep(60 * SECOND)
        seen.append(attributes(cluster)["nodeTopologyPodsFingerprint"])

    seen: list[str] = []
    cluster = numa_world(user, {})
    run(cluster)
    assert seen == [fingerprint([]), fingerprint([("default", "one")])]


def test_an_updater_that_crashed_reports_again():
    async def user(ctx: Context) -> None:
        await ctx.sleep(5 * SECOND)
        ctx.faults.crash(actor_of("node-1"))
        await Client(ctx).create(PODS, exclusive("one", 2))
        await ctx.sleep(5 * SECOND)
        seen.append(free(cluster))
        ctx.faults.restart(actor_of("node-1"))

    seen: list[dict] = []
    cluster = numa_world(user, {})
    run(cluster)
    assert seen == [{"node-1": ["3", "4"]}]
    assert free(cluster) == {"node-1": ["1", "4"]}


def test_a_node_that_joins_reports_its_zones_until_it_goes():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(2 * SECOND)
        tree = node_tree("node-2", cpu="8", memory="16Gi")
        await client.create(NODES, {**tree, "status": {}})
        await ctx.sleep(5 * SECOND)
        await client.create(PODS, exclusive("one", 2, nodeName="node-2"))
        await ctx.sleep(10 * SECOND)
        seen.append(free(cluster)["node-2"])
        await client.delete(NODES, "", "node-2")

    seen: list[list[str]] = []
    equip = equipment(str(EXAMPLES / "numa-kubelet.yaml"), MACHINE, LATEST)
    cluster = numa_world(user, {"joining_nodes": True, "equip": equip})
    run(cluster)
    assert seen == [["1", "4"]]


async def three_pods(ctx: Context) -> None:
    """Three pods of three CPUs, one after the other: a node has room for one in each zone."""
    client = Client(ctx)
    await ctx.sleep(2 * SECOND)
    for number in range(3):
        await client.create(PODS, exclusive(f"pod-{number}", 3))
        await ctx.sleep(20 * SECOND)


@pytest.mark.parametrize(
    "args", [{}, {"discardReservedNodes": True}, {"cacheResyncPeriodSeconds": 5}]
)
def test_no_pod_is_placed_that_the_kubelet_refuses(args):
    cluster = numa_world(three_pods, topology(**args))
    run(cluster)
    placed = [pod for pod in pods(cluster) if pod.spec.node_name]
    assert len(placed) == 2
    assert [pod.status.phase for pod in placed] == ["Running", "Running"]


@pytest.mark.parametrize(("resync", "refused"), [(0, ["TopologyAffinityError"]), (5, [])])
def test_pods_in_a_burst_are_placed_by_reports_that_lag_unless_there_is_a_cache(resync, refused):
    """Of 3 and 4 free CPUs, 1 and 2 are left after two pods: the third one fits their sum only."""

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(2 * SECOND)
        for number, cpus in enumerate((2, 2, 3)):
            await client.create(PODS, exclusive(f"pod-{number}", cpus))

    cluster = numa_world(user, topology(cacheResyncPeriodSeconds=resync))
    run(cluster)
    assert [pod.status.reason for pod in pods(cluster) if pod.status.reason] == refused


def test_the_cache_believes_a_node_again_when_it_reports_its_pods():
    """Each pod placed since the last report is taken out of both zones: the second one waits for the next report."""
    cluster = numa_world(three_pods, topology(cacheResyncPeriodSeconds=5))
    run(cluster)
    told = [each for each in events(cluster, "FailedScheduling") if "cannot align" in each]
    assert told
    (plugin,) = (
        each
        for each in cluster.scheduler.core.frameworks["default-scheduler"].all_plugins
        if each.name == "NodeResourceTopologyMatch"
    )
    assert plugin.cache.generation > 0


@pytest.mark.parametrize(("mode", "relied_on"), [("All", False), ("None", True)])
def test_pods_of_another_scheduler_make_a_node_unreliable(mode, relied_on):
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(2 * SECOND)
        other = exclusive("other", 2, nodeName="node-1", schedulerName="other")
        await client.create(PODS, other)
        await ctx.sleep(SECOND)
        await client.create(PODS, exclusive("own", 1))
        await ctx.sleep(2 * SECOND)
        seen.append([pod.spec.node_name for pod in pods(cluster) if pod.name == "own"])

    seen: list[list[str]] = []
    args = {"cacheResyncPeriodSeconds": 30, "cache": {"foreignPodsDetect": mode}}
    cluster = numa_world(user, topology(**args))
    run(cluster)
    assert seen == [["node-1" if relied_on else ""]]


@pytest.mark.slow
def test_others_come_between_the_requests_of_a_pass_over_the_cache():
    found: set[str] = set()
    for seed in range(6):
        cluster = numa_world(
            three_pods, topology(cacheResyncPeriodSeconds=5), strategy=RandomWalk(seed)
        )
        run(cluster)
        found |= overtaken(cluster.world.log)
    assert "scheduler.plugin.resync" in found
