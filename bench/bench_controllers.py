"""Whole clusters at work: every controller, a scheduler and one kubelet a node, with all their Events.

The sizes are tenths of those that are asked of a large cluster; CONTROLLERS_FULL=1 takes the full ones
(the figures of both stand in `bench/controllers.md`). `wall` counts from the first request of the user until
the cluster has what was asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise

from bench.harness import Row

PROGRAM = """
import json, os, resource, sys, time
from actors import EventLog, collector
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import (
    CONFIG_MAPS, DEPLOYMENTS, JOBS, NAMESPACES, SECRETS, SERVICES)
from controlplane.cluster import Cluster, ClusterConfig, node_tree

SECOND = 10**9
what, count, nodes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
marks = {}


def template(app, run_seconds=""):
    notes = {"emulate.controlplane/run-seconds": run_seconds} if run_seconds else {}
    policy = {"restartPolicy": "Never"} if run_seconds else {}
    return {"metadata": {"labels": {"app": app}, "annotations": notes},
            "spec": {"containers": [{"name": "main", "image": "app:1"}], **policy}}


def deployment(name, replicas):
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                     "template": template(name)}}


def mark(name, ctx):
    marks[name] = time.perf_counter(), ctx.now / SECOND, cluster.world.steps


async def until(ctx, holds):
    while not holds():
        await ctx.sleep(SECOND)


def rolled_out(replicas):
    def holds():
        found = cluster.objects("/registry/deployments/")
        return len(found) == count and all(
            (obj.tree.get("status") or {}).get("observedGeneration") == obj.metadata["generation"]
            and obj.tree["status"].get("availableReplicas") == replicas
            and obj.tree["status"].get("updatedReplicas") == replicas
            and obj.tree["status"].get("replicas") == replicas
            for obj in found)
    return holds


async def deployments(ctx, client):
    for number in range(count):
        await client.create(DEPLOYMENTS, deployment(f"app-{number}", 10), "default")
    await until(ctx, rolled_out(10))
    mark("ready", ctx)
    image = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}}}
    for number in range(count):
        await client.patch(DEPLOYMENTS, "default", f"app-{number}", image)
    await until(ctx, rolled_out(10))
    mark("updated", ctx)


async def namespace(ctx, client):
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "big"}})
    for number in range(count):
        name = f"thing-{number}"
        kind, resource, more = (
            ("ConfigMap", CONFIG_MAPS, {"data": {"key": name}}),
            ("Secret", SECRETS, {"stringData": {"key": name}}),
        )[number % 2]
        await client.create(resource, {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more}, "big")
    await ctx.sleep(SECOND)
    mark("filled", ctx)
    await client.delete(NAMESPACES, "", "big")
    await until(ctx, lambda: all(obj.name != "big" for obj in cluster.objects("/registry/namespaces/")))
    mark("gone", ctx)


async def node_loss(ctx, client):
    for number in range(count):
        await client.create(DEPLOYMENTS, deployment(f"app-{number}", 100), "default")
    await until(ctx, rolled_out(100))
    mark("ready", ctx)
    lost = "node-0"
    ctx.faults.crash(lost)
    on_lost = lambda: sum(obj.tree["spec"].get("nodeName") == lost and "deletionTimestamp" not in obj.metadata
                          for obj in cluster.objects("/registry/pods/"))
    await until(ctx, lambda: not on_lost())
    await until(ctx, rolled_out(100))
    mark("replaced", ctx)


async def jobs(ctx, client):
    for number in range(count):
        name = f"job-{number}"
        await client.create(JOBS, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
                                   "spec": {"template": template(name, "1")}}, "default")
    def done():
        found = cluster.objects("/registry/jobs/")
        return len(found) == count and all((obj.tree.get("status") or {}).get("succeeded") for obj in found)
    await until(ctx, done)
    mark("done", ctx)


async def user(ctx):
    await ctx.sleep(5 * SECOND)  # nodes are ready
    mark("start", ctx)
    await {"deployments": deployments, "namespace": namespace, "node-loss": node_loss, "jobs": jobs}[what](
        ctx, Client(ctx))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"marks": marks, "peak_mib": peak}), flush=True)
    os._exit(0)


collector.rest()
trees = tuple(node_tree(f"node-{number}", cpu="64", memory="256Gi", pods=250) for number in range(nodes))
config = ClusterConfig(nodes=trees, enabled_controllers=("*",), joined_informers=True, service_accounts=True)
cluster = Cluster(config, log=EventLog(keep=False))
cluster.user("user", user)
if len(sys.argv) > 4:
    import cProfile, pstats
    profile, leave = cProfile.Profile(), os._exit

    def told(code):
        profile.disable()
        for order in ("tottime", "cumtime"):
            pstats.Stats(profile).sort_stats(order).print_stats(40)
        sys.stdout.flush()
        leave(code)

    os._exit = told
    profile.enable()
result = cluster.world.run("bare")
print(result.verdict, result.reason, file=sys.stderr)
sys.exit(1)
"""
"""`what count nodes`; a fourth word prints a profile."""

TENTHS = (
    ("deployments", 100, 50),
    ("namespace", 1_000, 1),
    ("node-loss", 1, 10),
    ("jobs", 1_000, 50),
)
FULL = (
    ("deployments", 1_000, 500),
    ("namespace", 10_000, 1),
    ("node-loss", 100, 100),
    ("jobs", 10_000, 500),
)
TITLES = {
    "deployments": "{count} Deployments of 10 replicas, {nodes} nodes",
    "namespace": "namespace of {count} objects",
    "node-loss": "{nodes} nodes of 100 pods each, one is lost",
    "jobs": "{count} Jobs, {nodes} nodes",
}


def rows(repeat: int) -> Iterator[Row]:
    for what, count, nodes in FULL if os.environ.get("CONTROLLERS_FULL") else TENTHS:
        runs = []
        for _ in range(min(repeat, 3)):
            command = [sys.executable, "-c", PROGRAM, what, str(count), str(nodes)]
            found = subprocess.run(command, check=True, capture_output=True, text=True)
            runs.append(json.loads(found.stdout))
        title = TITLES[what].format(count=f"{count:,}", nodes=nodes)
        names = list(runs[0]["marks"])
        for before, name in pairwise(names):
            spans = [
                [
                    end - start
                    for start, end in zip(run["marks"][before], run["marks"][name], strict=True)
                ]
                for run in runs
            ]
            yield Row(f"{title}: {name}, wall", "s", tuple(span[0] for span in spans))
            yield Row(f"{title}: {name}, virtual", "s", tuple(span[1] for span in spans))
            yield Row(f"{title}: {name}, steps", "steps", tuple(span[2] for span in spans))
        yield Row(f"{title}: peak memory", "MiB", tuple(run["peak_mib"] for run in runs))
