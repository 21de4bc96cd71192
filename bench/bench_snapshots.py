"""Group snapshots at size: claims in groups are snapshotted, one of each group is restored, and all is deleted.

1,000 claims in 50 groups (SNAPSHOTS_FULL=1), a tenth of that by default. Calls are those to the driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from bench.harness import Row

PROGRAM = """
import json, sys, time
from actors import EventLog, collector
from controlplane.client.loops.clientset import Client
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.controllers.storage.csi.hostpath import DriverOptions, HostpathDriver, Volume
from controlplane.controllers.loops.storage import CsiDriver, Storage
from controlplane.client.resources import Resource, VOLUMES, CLAIMS, STORAGE_CLASSES
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants import storage as held

SECOND = 10**9
claims, groups = int(sys.argv[1]), int(sys.argv[2])
size = claims // groups
marks = {}
collector.rest()
VGS = Resource("groupsnapshot.storage.k8s.io", "v1", "volumegroupsnapshots")
CLASS = Resource("groupsnapshot.storage.k8s.io", "v1", "volumegroupsnapshotclasses")


def mark(name, ctx):
    marks[name] = time.perf_counter(), ctx.now / SECOND, cluster.world.steps


async def until(ctx, holds):
    while not holds():
        await ctx.sleep(SECOND)


def bound():
    return sum(o.tree["status"].get("phase") == "Bound" for o in cluster.objects(held.CLAIMS))


def ready(prefix):
    return sum(bool((o.tree.get("status") or {}).get("readyToUse")) for o in cluster.objects(prefix))


async def user(ctx):
    client = Client(ctx)
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "made"}
    await client.create(CLASS, {"apiVersion": CLASS.api_version, "kind": "VolumeGroupSnapshotClass",
        "metadata": {"name": "delete"}, "driver": held.DRIVER, "deletionPolicy": "Delete"})
    await client.create(STORAGE_CLASSES, {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "restored"}, "provisioner": held.DRIVER,
        "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"})
    for n in range(claims):
        ref = {"name": f"pvc-{n}", "namespace": "default"}
        await client.create(VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": f"pv-{n}"}, "spec": {**spec, "capacity": {"storage": "100Mi"},
            "claimRef": ref, "csi": {"driver": held.DRIVER, "volumeHandle": f"vol-{n}"}}})
        await client.create(CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {**ref, "labels": {"group": f"g-{n // size}"}},
            "spec": {**spec, "volumeName": f"pv-{n}",
                     "resources": {"requests": {"storage": "100Mi"}}}}, "default")
    await until(ctx, lambda: bound() == claims)
    mark("bound", ctx)
    for n in range(groups):
        await client.create(VGS, {"apiVersion": VGS.api_version, "kind": "VolumeGroupSnapshot",
            "metadata": {"name": f"g-{n}", "namespace": "default"},
            "spec": {"volumeGroupSnapshotClassName": "delete",
                     "source": {"selector": {"matchLabels": {"group": f"g-{n}"}}}}}, "default")
    await until(ctx, lambda: ready(held.GROUPS) == groups and ready(held.SNAPSHOTS) == claims)
    mark("snapshotted", ctx)
    first = {}
    for each in cluster.objects(held.SNAPSHOTS):
        first.setdefault(each.tree["status"]["volumeGroupSnapshotName"], each.name)
    for n, name in enumerate(first.values()):
        await client.create(CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"restored-{n}", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "restored",
                     "resources": {"requests": {"storage": "100Mi"}},
                     "dataSource": {"apiGroup": "snapshot.storage.k8s.io",
                                    "kind": "VolumeSnapshot", "name": name}}}, "default")
    await until(ctx, lambda: bound() == claims + groups)
    mark("restored", ctx)
    for n in range(groups):
        await client.delete(VGS, "default", f"g-{n}")
    await until(ctx, lambda: not any(cluster.objects(p) for p in
        (held.GROUPS, held.SNAPSHOTS, held.CONTENTS, held.GROUP_CONTENTS)))
    mark("deleted", ctx)


disk = HostpathDriver(DriverOptions(name=held.DRIVER))
for n in range(claims):
    disk.volumes[f"vol-{n}"] = Volume(f"vol-{n}", f"vol-{n}", held.SIZE)
config = ClusterConfig(kubelets=False, heartbeats=False, store=storage.store(),
    enabled_controllers=storage.VOLUME_CONTROLLERS,
    storage=Storage([CsiDriver(disk.options, disk)]))
cluster = Cluster(config, log=EventLog(100), livelock_limit=10**8)
cluster.user("user", user)
marks["begin"] = time.perf_counter(), 0, 0
cluster.world.run("bare", until_ns=3600 * SECOND)
calls = len(cluster.csi_drivers[held.DRIVER].calls)
print(json.dumps({"marks": marks, "calls": calls, "left": len(disk.snapshots)}))
"""
PHASES = ("begin", "bound", "snapshotted", "restored", "deleted")


def rows(repeat: int) -> Iterator[Row]:
    """Seconds per phase, and calls to the driver per group."""
    full = os.environ.get("SNAPSHOTS_FULL") == "1"
    claims, groups = (1000, 50) if full else (100, 5)
    runs = [_run(claims, groups) for _ in range(repeat)]
    title = f"snapshots, {claims} claims in {groups} groups"
    for before, after in pairwise(PHASES):
        spans = [
            [run["marks"][after][part] - run["marks"][before][part] for part in range(3)]
            for run in runs
        ]
        yield Row(f"{title}: {after}, wall", "s", tuple(span[0] for span in spans))
        yield Row(f"{title}: {after}, virtual", "s", tuple(span[1] for span in spans))
        yield Row(f"{title}: {after}, steps", "steps", tuple(span[2] for span in spans))
    calls = tuple(run["calls"] / groups for run in runs)
    yield Row(f"{title}: calls to the driver per group", "calls", calls)


def _run(claims: int, groups: int) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(claims), str(groups)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
