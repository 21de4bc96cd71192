"""Listers beside the cache: one per kind, keyed by namespace and name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import attrs

if TYPE_CHECKING:
    from controlplane.api.apps import ReplicaSet, StatefulSet
    from controlplane.api.claims import PersistentVolumeClaim
    from controlplane.api.core import Namespace, ReplicationController
    from controlplane.api.meta import ObjectMeta
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.api.policy import PodDisruptionBudget
    from controlplane.api.scheduling import PodGroup, PriorityClass
    from controlplane.api.service import Service
    from controlplane.api.storage import (
        CSIDriver,
        CSINode,
        CSIStorageCapacity,
        PersistentVolume,
        StorageClass,
        VolumeAttachment,
    )
    from controlplane.api.view import View


class Named(Protocol):
    """A view with metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """Name and namespace are read."""


T = TypeVar("T", bound=Named)
T_co = TypeVar("T_co", covariant=True)


class Lister(Protocol[T_co]):
    """A read-only store of typed views. Cluster-scoped objects have the namespace ""."""

    def get(self, namespace: str, name: str) -> T_co | None:
        """The object, or None."""

    def list(self) -> Iterable[T_co]:
        """All objects, in a stable order."""

    def labelled(self, key: str, value: str) -> Iterable[T_co]:
        """Return the objects with this label, in a stable order."""


class MemoryLister(Generic[T]):
    """A lister over a dict, in insertion order."""

    __slots__ = ("_objects",)

    def __init__(self, objects: Iterable[T] = ()) -> None:
        self._objects: dict[tuple[str, str], T] = {}
        for each in objects:
            self.put(each)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        """The object, or None."""
        return self._objects.get((namespace, name))

    def list(self) -> Iterable[T]:
        """All objects in insertion order."""
        return self._objects.values()

    def labelled(self, key: str, value: str) -> Iterable[T]:
        """Return the objects with this label, in insertion order."""
        return [each for each in self if each.metadata.labels.get(key) == value]

    def put(self, obj: T) -> None:
        """Add or replace an object."""
        metadata = obj.metadata
        self._objects[metadata.namespace, metadata.name] = obj

    def remove(self, namespace: str, name: str) -> T | None:
        """Drop an object; None when absent."""
        return self._objects.pop((namespace, name), None)


@attrs.define
class Listers:
    """Every lister a plugin may ask for; what is not given is empty."""

    pods: Lister[Pod] = attrs.Factory(MemoryLister)
    nodes: Lister[Node] = attrs.Factory(MemoryLister)
    namespaces: Lister[Namespace] = attrs.Factory(MemoryLister)
    persistent_volume_claims: Lister[PersistentVolumeClaim] = attrs.Factory(MemoryLister)
    persistent_volumes: Lister[PersistentVolume] = attrs.Factory(MemoryLister)
    storage_classes: Lister[StorageClass] = attrs.Factory(MemoryLister)
    csi_nodes: Lister[CSINode] = attrs.Factory(MemoryLister)
    csi_drivers: Lister[CSIDriver] = attrs.Factory(MemoryLister)
    csi_storage_capacities: Lister[CSIStorageCapacity] = attrs.Factory(MemoryLister)
    volume_attachments: Lister[VolumeAttachment] = attrs.Factory(MemoryLister)
    services: Lister[Service] = attrs.Factory(MemoryLister)
    replication_controllers: Lister[ReplicationController] = attrs.Factory(MemoryLister)
    replica_sets: Lister[ReplicaSet] = attrs.Factory(MemoryLister)
    stateful_sets: Lister[StatefulSet] = attrs.Factory(MemoryLister)
    pod_disruption_budgets: Lister[PodDisruptionBudget] = attrs.Factory(MemoryLister)
    device_classes: Lister[View] = attrs.Factory(MemoryLister)
    resource_slices: Lister[View] = attrs.Factory(MemoryLister)
    device_taint_rules: Lister[View] = attrs.Factory(MemoryLister)
    pod_groups: Lister[PodGroup] = attrs.Factory(MemoryLister)
    priority_classes: Lister[PriorityClass] = attrs.Factory(MemoryLister)
