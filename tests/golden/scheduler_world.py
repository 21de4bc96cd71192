"""What several scheduler adapters share: clusters from cases, and profiles on top of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controlplane.api.kinds import view_class
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.scheduler.config.load import load
from controlplane.scheduler.config.model import ProfileConfig, SchedulerConfig
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import Status
from controlplane.scheduler.framework.runtime import Framework
from controlplane.scheduler.plugins.registry import build_framework
from controlplane.scheduler.state.cache import Cache
from controlplane.scheduler.state.listers import Listers, MemoryLister
from controlplane.scheduler.state.snapshot import Snapshot
from tests.scheduler.reference.search import by_node_registry

Json = Any

_KINDS = {
    "namespaces": ("v1", "Namespace", "namespaces"),
    "persistentVolumes": ("v1", "PersistentVolume", "persistent_volumes"),
    "persistentVolumeClaims": ("v1", "PersistentVolumeClaim", "persistent_volume_claims"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass", "storage_classes"),
    "csiNodes": ("storage.k8s.io/v1", "CSINode", "csi_nodes"),
    "csiDrivers": ("storage.k8s.io/v1", "CSIDriver", "csi_drivers"),
    "csiStorageCapacities": (
        "storage.k8s.io/v1",
        "CSIStorageCapacity",
        "csi_storage_capacities",
    ),
    "volumeAttachments": ("storage.k8s.io/v1", "VolumeAttachment", "volume_attachments"),
    "services": ("v1", "Service", "services"),
    "replicaSets": ("apps/v1", "ReplicaSet", "replica_sets"),
    "replicationControllers": ("v1", "ReplicationController", "replication_controllers"),
    "statefulSets": ("apps/v1", "StatefulSet", "stateful_sets"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass", "priority_classes"),
    "podDisruptionBudgets": ("policy/v1", "PodDisruptionBudget", "pod_disruption_budgets"),
}


class World:
    """A cluster of a case: cache, listers and one snapshot."""

    def __init__(self, cluster: Mapping[str, Json]) -> None:
        self.cache = Cache()
        self.pods: MemoryLister[Pod] = MemoryLister()
        self.nodes: MemoryLister[Node] = MemoryLister()
        listers: dict[str, Any] = {"pods": self.pods, "nodes": self.nodes}
        for field, (version, kind, name) in _KINDS.items():
            cls = view_class(version, kind)
            listers[name] = MemoryLister(cls.from_tree(tree) for tree in cluster.get(field, ()))
        self.listers = Listers(**listers)
        for tree in cluster.get("nodes", ()):
            node = Node.from_tree(tree)
            self.nodes.put(node)
            self.cache.add_node(node)
        for tree in cluster.get("pods", ()):
            pod = Pod.from_tree(tree)
            self.pods.put(pod)
            if pod.spec.node_name:
                self.cache.add_pod(pod)
        self.handle = Handle(listers=self.listers)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot plugins see."""
        return self.handle.snapshot

    def update_snapshot(self) -> None:
        """Bring the snapshot up to date."""
        self.cache.update_snapshot(self.snapshot)
        self.handle.columns.sync()


def config_of(case: Mapping[str, Json]) -> SchedulerConfig:
    """The configuration of a case, or the default one."""
    document = case.get("config")
    return SchedulerConfig() if document is None else load(document)


def framework_of(case: Mapping[str, Json], handle: Handle, *, by_node: bool = False) -> Framework:
    """The (only) profile of a case; with `by_node` its plugins count node by node."""
    profiles = config_of(case).profiles
    registry = by_node_registry() if by_node else None
    return build_framework(profiles[0] if profiles else ProfileConfig(), handle, registry)


def status_json(status: Status | None) -> Json:
    """A status as the cases write it."""
    if status is None:
        return {"code": "Success"}
    out: Json = {"code": status.code_name}
    if status.reasons:
        out["reasons"] = list(status.reasons)
    return out
