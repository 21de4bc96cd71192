"""Nodes with many pods: started to ready, and a storm of resizes. How many: NODES and PODS of the environment."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from typing import Any

from actors import EventLog
from bench.harness import Row
from controlplane.client.loops.clientset import PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.scenarios import Scenario, User
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of

NODES = int(os.environ.get("NODES", "500"))
PODS_EACH = int(os.environ.get("PODS", "100"))
RESIZES = 10_000
RESIZED = 100


def pod(name: str, node: str) -> dict[str, Any]:
    requests = {"cpu": "10m", "memory": "10Mi"}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": node, "containers": [container]},
    }


def started() -> tuple[float, int]:
    """Pods that are bound already, created one after the other; until all are ready. Seconds, and how many."""

    async def user(ctx: Any) -> None:
        client = Client(ctx)
        for node in range(1, NODES + 1):
            for number in range(PODS_EACH):
                await client.create(PODS, pod(f"p-{node}-{number}", f"node-{node}"))

    trees = tuple(node_tree(f"node-{node}", pods=250) for node in range(1, NODES + 1))
    config = ClusterConfig(
        nodes=trees,
        heartbeats=False,
        kubelet_events=False,
        controllers=False,
        joined_informers=True,
    )
    cluster = Cluster(config, log=EventLog(keep=False))
    cluster.user("user", user)
    begun = time.perf_counter()
    cluster.world.run("bare")
    wall = time.perf_counter() - begun
    return wall, sum(
        obj.view.status.phase == "Running" for obj in cluster.objects("/registry/pods/")
    )


def resized() -> float:
    """Ten thousand resizes of a hundred pods on one node, a fifth of which it has no room for. Seconds."""

    async def storm(user: User) -> None:
        for number in range(RESIZED):
            await user.create(pod(f"p-{number}", "node-1"))
        await user.sleep(60)
        for number in range(RESIZES):
            cpu = "1500m" if number % 5 == 0 else f"{10 + number % 7}m"
            await user.attempt(user.resize(f"p-{number % RESIZED}", "main", cpu=cpu))
        await user.sleep(600)

    plan = plan_of(
        Scenario("storm", workload=storm, livelock_limit=10_000_000),
        nodes=1,
        node_cpu="64",
        heartbeats=False,
    )
    run = Execution(plan, log=EventLog(keep=False))
    begun = time.perf_counter()
    run.execute("bare")
    return time.perf_counter() - begun


def rows(_repeat: int) -> Iterator[Row]:
    wall, ready = started()
    yield Row(f"nodes: {NODES} with {PODS_EACH} pods each, {ready} ready", "s", (wall,))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Row("nodes: peak memory", "MiB", (peak,))
    yield Row("nodes: 10,000 resizes of 100 pods", "s", (resized(),))
