"""Worlds that only store objects, for invariants that read nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controlplane.api.object import Object

PREFIXES = {
    "Pod": "pods",
    "ReplicaSet": "replicasets",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
    "Job": "jobs",
    "Node": "minions",
    "Service": "services/specs",
    "EndpointSlice": "endpointslices",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "ResourceQuota": "resourcequotas",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PersistentVolume": "persistentvolumes",
    "VolumeAttachment": "volumeattachments",
    "VolumeSnapshot": "snapshot.storage.k8s.io/volumesnapshots",
    "VolumeSnapshotContent": "snapshot.storage.k8s.io/volumesnapshotcontents",
}
VERSIONS = {
    "ReplicaSet": "apps/v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "VolumeAttachment": "storage.k8s.io/v1",
}


class StoredRun:
    """A world that stores these objects."""

    def __init__(self, *objects: Object) -> None:
        self.stored = list(objects)
        self.notes: dict[str, Any] = {}
        self.cluster: Any = None
        self.world = SimpleNamespace(faults=SimpleNamespace(injected=set()), now=0)

    def objects(self, prefix: str) -> list[Object]:
        kinds = {f"/registry/{place}/": kind for kind, place in PREFIXES.items()}
        return [obj for obj in self.stored if obj.tree["kind"] == kinds.get(prefix)]


def made(kind: str, name: str, spec: Any = None, status: Any = None, **metadata: Any) -> Object:
    named = {"name": name, "namespace": "default", "uid": name, **metadata}
    tree = {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, "metadata": named}
    return Object({**tree, "spec": spec or {}, "status": status or {}})


def owned(
    kind: str, owner: str, name: str, phase: str = "Running", spec: Any = None, **metadata: Any
) -> Object:
    reference = {"kind": kind, "name": owner, "uid": owner, "controller": True}
    ready = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    status = {"phase": phase, "conditions": ready}
    return made("Pod", name, spec, status, ownerReferences=[reference], **metadata)


def said(invariant: Any, *objects: Object, run: StoredRun | None = None) -> str | None:
    run = run or StoredRun()
    run.stored = list(objects)
    found: str | None = invariant.check(run)
    return found
