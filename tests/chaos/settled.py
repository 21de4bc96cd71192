"""How worlds that have come to rest are compared: who, where and when are left out, and nothing else.

`controlplane.scenarios.engine.convergence` leaves out fields; here names that were drawn, addresses, times and
uids are left out wherever they stand, in references to others too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from controlplane.api.object import Object
from controlplane.scenarios.engine.convergence import End, end_of

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
ADDRESS = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
SCHEDULED = re.compile(r"-\d{8}(?=$|-)")
"""What a CronJob puts behind the names of its runs: the minute."""

PASSED = {
    # A time, which is left out where a slice had to be written twice.
    "endpoints.kubernetes.io/last-change-trigger-time",
    # Numbers that a replica set had before: one too small where its controller had not heard of another one yet.
    "deployment.kubernetes.io/revision-history",
}
NOTED = ("deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas")
BEING_DELETED = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
ENDED = ("Succeeded", "Failed")
ADDRESSES = ("podIP", "podIPs")

Tree = dict[str, Any]


def settled(objects: Sequence[Object]) -> End:
    """What is compared of all objects of a world."""
    drawn = {}
    for obj in objects:
        base = obj.tree["metadata"].get("generateName")
        if base:
            drawn[obj.name] = f"{_plain(base)}*"
    snapshots = {obj.key for obj in objects if obj.kind == "VolumeSnapshot"}
    return end_of(
        Object(_masked(_alive(obj.tree), drawn)) for obj in objects if not _is_left(obj, snapshots)
    )


def _is_left(obj: Object, snapshots: Collection[str]) -> bool:
    """Whether upstream leaves a content for ever whose snapshot is gone.

    Upstream's snapshot controller marks contents that are being deleted in its cache before it writes so. If
    that write fails, it takes them for marked when it tries again, deletes them and lets go of their snapshots;
    the sidecar deletes what is marked only, and nobody marks the content of a snapshot that is gone.
    """
    metadata = obj.tree["metadata"]
    if obj.kind != "VolumeSnapshotContent" or not metadata.get("deletionTimestamp"):
        return False
    of = obj.tree["spec"]["volumeSnapshotRef"]
    marked = BEING_DELETED in (metadata.get("annotations") or {})
    return not marked and f"{of['namespace']}/{of['name']}" not in snapshots


def _alive(tree: Tree) -> Tree:
    """What an object is, without what nobody looks at any more.

    Of a pod that has ended that is its address, which a kubelet that begins anew does not find in a sandbox that
    was stopped; of a replica set without pods what its deployment noted when it had some; of an attached volume
    an error that its attacher saved when it was told that writing so had failed.
    """
    if tree.get("kind") == "VolumeAttachment" and (tree.get("status") or {}).get("attached"):
        status = {key: value for key, value in tree["status"].items() if key != "attachError"}
        return {**tree, "status": status}
    if tree.get("kind") == "Pod" and tree["status"].get("phase") in ENDED:
        status = {key: value for key, value in tree["status"].items() if key not in ADDRESSES}
        return {**tree, "status": status}
    if tree.get("kind") != "ReplicaSet" or tree["spec"].get("replicas"):
        return tree
    metadata = tree["metadata"]
    notes = {k: v for k, v in metadata.get("annotations", {}).items() if k not in NOTED}
    return {**tree, "metadata": {**metadata, "annotations": notes}}


def _masked(value: Any, drawn: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {
            _masked(key, drawn): _masked(item, drawn)
            for key, item in value.items()
            if key not in PASSED and not (key == "annotations" and item.keys() <= PASSED)
        }
    if isinstance(value, list):
        return [_masked(item, drawn) for item in value]
    if isinstance(value, str):
        return drawn.get(value) or _plain(value)
    return value


def _plain(text: str) -> str:
    for pattern, shown in (
        (UID, "<uid>"),
        (ADDRESS, "<address>"),
        (TIME, "<time>"),
        (DIGEST, "<digest>"),
    ):
        text = pattern.sub(shown, text)
    return SCHEDULED.sub("-<minute>", text)
