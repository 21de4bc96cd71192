"""State of dynamic resource allocation, shared by plugins: claims, slices, classes, extended resources of classes.

Upstream: DefaultDRAManager of plugins/dynamicresources/dra_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from controlplane.api.device_selection import DeviceSelectorError, SelectDevice, Selection
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.extended import ExtendedResources
from controlplane.scheduler.dra.features import Features
from controlplane.scheduler.dra.metrics import DRAMetrics
from controlplane.scheduler.dra.pools import Slices
from controlplane.scheduler.dra.slice_tracker import SliceTracker
from controlplane.scheduler.dra.tracker import ClaimTracker

if TYPE_CHECKING:
    from controlplane.api.view import View
    from controlplane.scheduler.state.listers import Lister, Listers

__all__ = ["DRAManager", "allocator_features", "no_selector"]


def no_selector(_expression: str, _driver: str, _device: Tree) -> Selection:
    """Stand in for the expression language where there is none. DeviceSelectorError."""
    raise DeviceSelectorError("no expressions can be evaluated here", compiling=True)


def allocator_features(feature: Callable[[str], bool]) -> Features:
    """Return the features of the allocator; list attributes are none of them (as in 1.36)."""
    return Features(
        admin_access=feature("DRAAdminAccess"),
        prioritized_list=feature("DRAPrioritizedList"),
        partitionable_devices=feature("DRAPartitionableDevices"),
        device_taints=feature("DRADeviceTaints"),
        device_binding_and_status=feature("DRADeviceBindingConditions")
        and feature("DRAResourceClaimDeviceStatus"),
        consumable_capacity=feature("DRAConsumableCapacity"),
    )


class _Classes(Mapping[str, Tree]):
    """Device classes by their names, as the informer has them at the time of asking."""

    def __init__(self, lister: Lister[View]) -> None:
        self._lister = lister

    def __getitem__(self, name: str) -> Tree:
        found = self._lister.get("", name)
        if found is None:
            raise KeyError(name)
        return found.tree

    def __iter__(self) -> Iterator[str]:
        return (each.metadata.name for each in self._lister.list())

    def __len__(self) -> int:
        return sum(1 for _ in self._lister.list())


TAINT_RULES: Final = "DRADeviceTaintRules"


class DRAManager:
    """Shared by all plugins of all profiles of one scheduler."""

    def __init__(self, listers: Listers, feature: Callable[[str], bool]) -> None:
        self.features = allocator_features(feature)
        self.tracker = ClaimTracker(shares=self.features.consumable_capacity)
        self.classes: Mapping[str, Tree] = _Classes(listers.device_classes)
        self._slices = listers.resource_slices
        self.patches: SliceTracker | None = None
        """The slices with the taints of DeviceTaintRules, with gate DRADeviceTaintRules only."""
        if feature(TAINT_RULES):
            self.patches = SliceTracker(listers.resource_slices, listers.device_taint_rules)
        self._groups = listers.pod_groups
        self.extended = ExtendedResources()
        self.metrics = DRAMetrics()
        self._extends = feature("DRAExtendedResource")
        self.select: SelectDevice = no_selector

    def read_slices(self) -> Slices:
        """Return all ResourceSlices for the allocator."""
        return Slices.of(self.slices())

    def slices(self) -> list[Tree]:
        """Return all ResourceSlices, with the taints of rules."""
        if self.patches is not None:
            return self.patches.slices()
        return [each.tree for each in self._slices.list()]

    def group(self, namespace: str, name: str) -> Tree | None:
        """Return a PodGroup, None if there is none."""
        found = self._groups.get(namespace, name)
        return None if found is None else found.tree

    def class_changed(self, old: View | None, new: View | None) -> None:
        """A device class is new, has changed, or is gone."""
        if self._extends:
            before = None if old is None else old.tree
            self.extended.notice(before, None if new is None else new.tree)

    def delegates(self, resource: str, allocatable: int = 0) -> bool:
        """Return whether a class gives an extended resource, of which the node itself has `allocatable`."""
        return allocatable <= 0 and self.extended.class_of(resource) is not None

    def device(self, pool: str, name: str) -> Tree | None:
        """Return a device by pool and name alone, as upstream looks for it: the first of any driver."""
        for piece in self.slices():
            spec = piece.get("spec") or {}
            if (spec.get("pool") or {}).get("name") != pool:
                continue
            for device in spec.get("devices") or ():
                if device.get("name") == name:
                    found: Tree = device
                    return found
        return None
