"""CSI drivers and snapshots, installed by a client alone while a cluster is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from actors.pace import Pacer
from controlplane.scenarios.search import replaying
from tests.apiserver.http.session import served
from tests.serving.test_nodes import until

EXAMPLE = Path(__file__).parents[2] / "examples" / "group-snapshot"
GROUP = "/apis/groupsnapshot.storage.k8s.io/v1/namespaces/demo-namespace/volumegroupsnapshots"
PLURALS = {
    "CSIDriver": "csidrivers",
    "CustomResourceDefinition": "customresourcedefinitions",
    "Namespace": "namespaces",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "Pod": "pods",
    "StorageClass": "storageclasses",
    "VolumeGroupSnapshot": "volumegroupsnapshots",
    "VolumeGroupSnapshotClass": "volumegroupsnapshotclasses",
}


def path_of(tree: dict[str, Any]) -> str:
    version = tree["apiVersion"]
    base = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = tree["metadata"].get("namespace")
    inner = f"/namespaces/{namespace}" if namespace else ""
    return f"{base}{inner}/{PLURALS[tree['kind']]}"


@pytest.mark.slow
async def test_the_walk_of_the_group_snapshot_guide_works_by_a_client_alone():
    trees = [
        tree
        for file in sorted(EXAMPLE.glob("*.yaml"))
        for tree in yaml.safe_load_all(file.read_text())
    ]
    trees.sort(key=lambda tree: tree["kind"] != "CustomResourceDefinition")
    async with served(Pacer(20), nodes=2, controllers="*", keep=True) as session:
        for tree in trees:
            with trio.fail_after(120):
                while (answer := await session.ask("POST", path_of(tree), tree)).code != 201:
                    assert answer.code in (403, 404), (
                        answer.body
                    )  # its account or definition is on the way
                    await trio.sleep(0.02)

        def taken(answer: Any) -> bool:
            return bool((answer.tree.get("status") or {}).get("readyToUse"))

        name = next(
            tree["metadata"]["name"] for tree in trees if tree["kind"] == "VolumeGroupSnapshot"
        )
        await until(session, f"{GROUP}/{name}", taken)
        pods = "/api/v1/namespaces/demo-namespace/pods"
        await until(session, f"{pods}/database", lambda a: a.tree["status"]["phase"] == "Running")
        nodes = await session.ask("GET", "/apis/storage.k8s.io/v1/csinodes")
        assert [len(node["spec"]["drivers"]) for node in nodes.tree["items"]] == [1, 1]
    serving = session.serving
    recording = serving.recording()
    again = replaying.replayed(serving.plan, recording)
    assert again.execute("bare").trace_hash == recording.trace_hash
