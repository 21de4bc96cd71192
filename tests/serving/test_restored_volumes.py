"""Files in volumes of a CSI driver: written by exec, kept by snapshots and groups of them, read in restored volumes."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import yaml

from actors.pace import MAX, Pacer
from tests.apiserver.http.session import Session, served
from tests.serving.test_joining_storage import EXAMPLE, GROUP, PLURALS, path_of
from tests.serving.test_nodes import until

pytest.importorskip("wsproto")
from tests.apiserver.http.exec_client import run

NAMESPACE = "demo-namespace"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SNAPSHOTS = f"/apis/snapshot.storage.k8s.io/v1/namespaces/{NAMESPACE}/volumesnapshots"
PLURALS.update(VolumeSnapshot="volumesnapshots", VolumeSnapshotClass="volumesnapshotclasses")


async def make(session: Session, tree: dict[str, Any]) -> None:
    with trio.fail_after(120):
        while (answer := await session.ask("POST", path_of(tree), tree)).code != 201:
            assert answer.code in (403, 404), answer.body  # its account or definition is on the way
            await trio.sleep(0.02)


def snapshot(kind: str, group: str, name: str, **spec: Any) -> dict[str, Any]:
    version = f"{group}.storage.k8s.io/v1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def claim(name: str, source: str) -> dict[str, Any]:
    data = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": source}
    spec = {
        "storageClassName": "csi-hostpath-sc",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "100Mi"}},
        "dataSource": data,
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def pod(name: str, **claims: str) -> dict[str, Any]:
    mounts = [{"name": each, "mountPath": f"/{each}"} for each in claims]
    volumes = [
        {"name": each, "persistentVolumeClaim": {"claimName": claimed}}
        for each, claimed in claims.items()
    ]
    spec = {"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], "volumes": volumes}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def taken(answer: Any) -> bool:
    return answer.code == 200 and bool((answer.tree.get("status") or {}).get("readyToUse"))


def running(answer: Any) -> bool:
    return bool(answer.tree["status"]["phase"] == "Running")


@pytest.mark.slow
async def test_restored_volumes_hold_the_files_of_their_snapshots():
    trees = [
        tree
        for file in sorted(EXAMPLE.glob("*.yaml"))
        for tree in yaml.safe_load_all(file.read_text())
    ]
    trees.sort(key=lambda tree: tree["kind"] != "CustomResourceDefinition")
    async with served(Pacer(MAX), nodes=1, controllers="*") as session:
        for tree in trees:
            if tree["kind"] not in ("Pod", "VolumeGroupSnapshot"):
                await make(session, tree)
        kept = {"driver": "hostpath.csi.k8s.io", "deletionPolicy": "Delete"}
        await make(
            session,
            {
                "apiVersion": "snapshot.storage.k8s.io/v1",
                "kind": "VolumeSnapshotClass",
                "metadata": {"name": "plain"},
                **kept,
            },
        )
        await make(session, pod("writer", log="pvc-0", data="pvc-1"))
        await until(session, f"{PODS}/writer", running)
        await run(
            session,
            "writer",
            "echo first > /log/f; mkdir /data/d; echo second > /data/d/g",
            namespace=NAMESPACE,
        )
        source = {"persistentVolumeClaimName": "pvc-0"}
        await make(
            session,
            snapshot(
                "VolumeSnapshot", "snapshot", "one", source=source, volumeSnapshotClassName="plain"
            ),
        )
        selector = {"selector": {"matchLabels": {"group": "myGroup"}}}
        await make(
            session,
            snapshot(
                "VolumeGroupSnapshot",
                "groupsnapshot",
                "both",
                source=selector,
                volumeGroupSnapshotClassName="csi-groupsnapclass",
            ),
        )
        await until(session, f"{SNAPSHOTS}/one", taken)
        await until(session, f"{GROUP}/both", taken)
        await run(session, "writer", "echo later > /log/f; rm -r /data/d", namespace=NAMESPACE)
        members = (await session.ask("GET", SNAPSHOTS)).tree["items"]
        await make(session, claim("restored", "one"))
        names = sorted(
            each["metadata"]["name"] for each in members if each["metadata"]["name"] != "one"
        )
        assert len(names) == 2, members
        for at, name in enumerate(names):
            await make(session, claim(f"member-{at}", name))
        await make(session, pod("reader", single="restored", a="member-0", b="member-1"))
        await until(session, f"{PODS}/reader", running)
        script = "cat /single/f; cat /a/f /b/f /a/d/g /b/d/g 2> /dev/null"
        assert await run(session, "reader", script, namespace=NAMESPACE) == "first\nfirst\nsecond\n"
        assert (
            await run(session, "writer", "cat /log/f; ls /data", namespace=NAMESPACE) == "later\n"
        )
