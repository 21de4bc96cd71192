"""Topology aware placement in a whole cluster: pods go to one rack, and to another node when theirs fails."""

from __future__ import annotations

import pytest

from actors import Context
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import JOBS, NODES
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.kueue.api.installation import installation
from controlplane.kueue.api.webhook_configurations import HOST
from controlplane.kueue.config import load
from controlplane.kueue.loops.webhook import webhook_of
from controlplane.kueue.names import API_VERSION
from controlplane.kueue.process.controller import kueue_of
from controlplane.kueue.process.kinds import KINDS
from controlplane.kueue.topology.assignment import assignment_of
from tests.test_cluster import SECOND, pods, run

RACK = "example.com/rack"
HOSTNAME = "kubernetes.io/hostname"
RUNTIME = "emulate.controlplane/run-seconds"
OBJECTS = (
    ("Topology", "racks", {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOSTNAME}]}),
    ("ResourceFlavor", "racked", {"nodeLabels": {"pool": "a"}, "topologyName": "racks"}),
    (
        "ClusterQueue",
        "queue",
        {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [
                        {"name": "racked", "resources": [{"name": "cpu", "nominalQuota": "16"}]}
                    ],
                }
            ],
        },
    ),
)


def node(name: str, rack: str):
    tree = node_tree(name, cpu="4" if name.endswith("1") else "2")
    labels = {**tree["metadata"].get("labels", {}), RACK: rack, "pool": "a", HOSTNAME: name}
    return {**tree, "metadata": {**tree["metadata"], "labels": labels}}


def job(seconds: int) -> dict:
    container = {"name": "work", "image": "work", "resources": {"requests": {"cpu": "2"}}}
    notes = {"kueue.x-k8s.io/podset-required-topology": RACK, RUNTIME: str(seconds)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "work",
            "namespace": "default",
            "labels": {"kueue.x-k8s.io/queue-name": "queue"},
        },
        "spec": {
            "parallelism": 3,
            "completions": 3,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"annotations": notes},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def racks(user) -> Cluster:
    nodes = [node(f"{rack}-{number}", rack) for rack in ("r1", "r2") for number in (1, 2, 3)]
    config = ClusterConfig(
        nodes=nodes,
        own_controllers=(kueue_of(load(None)),),
        webhook_servers={HOST: webhook_of(load(None))},
        installed=installation(load(None)),
        track_fields=True,
        enabled_controllers=("*",),
    )
    cluster = Cluster(config)

    async def main(ctx: Context) -> None:
        client = Client(ctx)
        for kind, name, spec in OBJECTS:
            tree = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}}
            await client.create(KINDS[kind], {**tree, "spec": spec})
        local = {
            "apiVersion": API_VERSION,
            "kind": "LocalQueue",
            "metadata": {"name": "queue", "namespace": "default"},
            "spec": {"clusterQueue": "queue"},
        }
        await client.create(KINDS["LocalQueue"], local)
        await ctx.sleep(2 * SECOND)
        await user(ctx, client)

    cluster.user("user", main)
    return cluster


def assignment(cluster) -> list[dict]:
    (workload,) = cluster.objects("/registry/kueue.x-k8s.io/workloads/")
    return workload.tree["status"]["admission"]["podSetAssignments"]


def test_the_pods_of_a_job_run_in_one_rack():
    async def user(ctx: Context, client: Client) -> None:
        await client.create(JOBS, job(5))
        await ctx.sleep(30 * SECOND)

    cluster = racks(user)
    run(cluster)
    placed = [pod.spec.node_name for pod in pods(cluster)]
    assert len(placed) == 3
    assert len({name.split("-")[0] for name in placed}) == 1
    assert assignment(cluster)[0]["topologyAssignment"]["levels"] == [HOSTNAME]
    assert {pod.status.phase for pod in pods(cluster)} == {"Succeeded"}


def failing(name: str) -> tuple[Cluster, set[str]]:
    """A cluster in which a node is tainted while the job runs; the nodes of the assignment in the end."""

    async def user(ctx: Context, client: Client) -> None:
        await client.create(JOBS, job(200))
        await ctx.sleep(20 * SECOND)
        taint = {"key": "broken", "effect": "NoExecute"}
        await client.patch(NODES, "", name, {"spec": {"taints": [taint]}})
        await ctx.sleep(60 * SECOND)

    cluster = racks(user)
    assert cluster.world.run("bare", until_ns=100 * SECOND).verdict == "until"
    domains = assignment_of(assignment(cluster)[0]["topologyAssignment"]).domains
    return cluster, {each.values[0] for each in domains}


def reasons(cluster) -> list[str]:
    return [obj.view.reason for obj in cluster.objects("/registry/events/")]


@pytest.mark.slow
def test_pods_of_a_failed_node_get_another_one_in_the_same_rack():
    cluster, nodes = failing("r1-2")
    assert nodes == {"r1-1", "r1-3"}
    assert "EvictedDueToNodeFailures" not in reasons(cluster)


@pytest.mark.slow
def test_a_workload_without_another_place_in_its_rack_starts_anew():
    cluster, nodes = failing("r1-1")
    assert "r1-1" not in nodes
    assert "EvictedDueToNodeFailures" in reasons(cluster)
