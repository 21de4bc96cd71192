"""Placement by network costs and by system calls, in a whole cluster."""

from __future__ import annotations

import pytest

from actors import Context, EventLog
from controlplane.client.loops.clientset import PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.scheduler.community.network_aware import APP_GROUP, NETWORK_TOPOLOGY
from controlplane.scheduler.community.sysched import SECCOMP_PROFILE
from controlplane.scheduler_plugins.definitions import installation
from tests.scheduler_plugins.worlds import configured, events
from tests.test_cluster import SECOND, plain_pod, pods, run

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
LABEL = "appgroup.diktyo.x-k8s.io"


def cluster_of(user, config: dict, *, installed: bool = True) -> Cluster:
    """Two nodes in two zones of a region."""
    nodes = []
    for number in (1, 2):
        tree = node_tree(f"node-{number}", cpu="4")
        tree["metadata"]["labels"] |= {REGION: "r", ZONE: f"z{number}"}
        nodes.append(tree)
    given = tuple(installation()) if installed else ()
    cluster = Cluster(ClusterConfig(nodes=nodes, installed=given, **config), log=EventLog())
    cluster.user("user", user)
    return cluster


def workload(name: str) -> dict:
    return {"kind": "Deployment", "name": name, "selector": name, "apiVersion": "apps/v1"}


def app_group(most: int) -> dict:
    """The workload `front` depends on `back`, which comes first."""
    dependency = {"workload": workload("back"), "maxNetworkCost": most}
    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "numMembers": 2,
            "topologySortingAlgorithm": "KahnSort",
            "workloads": [
                {"workload": workload("back")},
                {"workload": workload("front"), "dependencies": [dependency]},
            ],
        },
        "status": {
            "topologyOrder": [
                {"workload": workload("back"), "index": 1},
                {"workload": workload("front"), "index": 2},
            ]
        },
    }


def network(cost: int) -> dict:
    costs = [
        {"origin": a, "costList": [{"destination": b, "networkCost": cost}]}
        for a, b in (("z1", "z2"), ("z2", "z1"))
    ]
    listed = [{"topologyKey": ZONE, "originList": costs}]
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": "nt-default", "namespace": "default"},
        "spec": {
            "configmapName": "costs",
            "weights": [{"name": "UserDefined", "topologyList": listed}],
        },
    }


def part(name: str, of: str, **spec) -> dict:
    tree = plain_pod(name, **spec)
    tree["metadata"]["labels"] = {LABEL: "shop", f"{LABEL}.workload": of}
    return tree


NEAR = "{multiPoint: {enabled: [{name: NetworkOverhead}]}}"
IN_ORDER = "{queueSort: {enabled: [{name: TopologicalSort}], disabled: [{name: '*'}]}}"


@pytest.mark.parametrize(("most", "told"), [(5, True), (50, False)])
def test_a_pod_goes_near_what_it_depends_on(most, told):
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(APP_GROUP.resource, app_group(most))
        await client.create(NETWORK_TOPOLOGY.resource, network(10))
        await client.create(PODS, part("back", "back", nodeName="node-2"))
        full = plain_pod("full", nodeName="node-2")
        full["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        await client.create(PODS, full)
        await ctx.sleep(2 * SECOND)
        tree = part("front", "front")
        tree["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        await client.create(PODS, tree)

    cluster = cluster_of(user, configured(NEAR))
    run(cluster)
    (front,) = (pod for pod in pods(cluster) if pod.name == "front")
    refused = any(
        "Node node-1 does not meet several network requirements" in each
        for each in events(cluster, "FailedScheduling")
    )
    assert (front.spec.node_name, refused) == (("", True) if told else ("node-1", False))


def test_of_two_pods_the_first_workload_of_an_application_gets_the_room():
    """`front` was there first: by time it would be tried first when the room gets free."""

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(APP_GROUP.resource, app_group(5))
        for number in (1, 2):
            await client.create(PODS, sized(plain_pod(f"full-{number}", nodeName=f"node-{number}")))
        await ctx.sleep(2 * SECOND)
        for name in ("front", "back"):
            await client.create(PODS, sized(part(name, name)))
        await ctx.sleep(20 * SECOND)
        await client.delete(PODS, "default", "full-1")

    def sized(tree: dict) -> dict:
        tree["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "4"}}
        return tree

    cluster = cluster_of(user, configured(IN_ORDER))
    run(cluster)
    found = {pod.name: pod.spec.node_name for pod in pods(cluster)}
    assert (found["front"], found["back"]) == ("", "node-1")


def test_pods_of_an_application_that_is_not_described_end_the_scheduler():
    async def user(ctx: Context) -> None:
        for name in ("front", "back"):
            await Client(ctx).create(PODS, part(name, name))

    cluster = cluster_of(user, configured(NEAR))
    run(cluster)
    told = [e.data["message"] for e in cluster.world.log if e.event == "scheduler.error"]
    panic = "runtime error: invalid memory address or nil pointer dereference"
    assert told == [f"panic: {panic}; the process exits"]


def profile(name: str, *calls: str) -> dict:
    return {
        "apiVersion": "security-profiles-operator.x-k8s.io/v1beta1",
        "kind": "SeccompProfile",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "defaultAction": "SCMP_ACT_ERRNO",
            "syscalls": [{"action": "SCMP_ACT_ALLOW", "names": list(calls)}],
        },
    }


def confined(name: str, by: str, **spec) -> dict:
    path = f"operator/default/{by}.json"
    local = {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}
    return plain_pod(name, securityContext=local, **spec)


@pytest.mark.parametrize("installed", [True, False])
def test_a_pod_goes_beside_pods_with_the_same_system_calls(installed):
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        if installed:
            await client.create(SECCOMP_PROFILE.resource, profile("few", "read"))
            await client.create(SECCOMP_PROFILE.resource, profile("many", "read", "write", "bpf"))
        await client.create(PODS, confined("one", "many", nodeName="node-1"))
        await client.create(PODS, confined("two", "few", nodeName="node-2"))
        await ctx.sleep(10 * SECOND)
        for number in range(3):
            await client.create(PODS, confined(f"own-{number}", "few"))

    plugins = "{score: {enabled: [{name: SySched, weight: 100}]}}"
    cluster = cluster_of(user, configured(plugins), installed=installed)
    run(cluster)
    placed = {pod.spec.node_name for pod in pods(cluster) if pod.name.startswith("own-")}
    assert placed == ({"node-2"} if installed else {"node-1", "node-2"})
