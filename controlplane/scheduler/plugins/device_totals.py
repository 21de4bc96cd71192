"""Devices of a class on a node as an amount of an extended resource, for scores.

Upstream: calculateDRAResourceTotals of `plugins/noderesources/resource_allocation.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from controlplane.api.device_selection import DeviceSelectorError
from controlplane.decisions import at_once
from controlplane.scheduler.dra.devices import DeviceID
from controlplane.scheduler.dra.pools import NodeView, PoolError, node_matches

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.scheduler.dra.manager import DRAManager
    from controlplane.scheduler.framework import args as a
    from controlplane.scheduler.state.node_info import NodeInfo

__all__ = ["DeviceTotals", "scores_devices"]


def scores_devices(
    dra: DRAManager, resources: Sequence[a.ResourceSpec], amounts: Sequence[int]
) -> bool:
    """Return whether a scored resource that the pod requests is given by a device class."""
    return any(
        amount and dra.delegates(spec.name) for spec, amount in zip(resources, amounts, strict=True)
    )


class DeviceTotals:
    """The devices of all nodes, as they are at the time of PreScore.

    Upstream reads slices, claims and allocations in flight under several locks, and gives the cycle up if they
    change meanwhile; here they are read at once.
    """

    def __init__(self, dra: DRAManager) -> None:
        self._dra = dra
        self._slices = dra.slices()
        self._state = at_once(dra.tracker.gather()).state

    def of(self, node: NodeInfo, resource: str) -> tuple[int, int]:
        """(devices, those in use) that a class gives on a node; (0, 0) for none, or after an error."""
        found = self._dra.extended.class_of(resource)
        if found is None:
            return 0, 0
        try:
            return self._count(node, found)
        except (PoolError, DeviceSelectorError):
            return 0, 0

    def _count(self, node: NodeInfo, device_class: Tree) -> tuple[int, int]:
        assert node.node is not None
        view = NodeView(node.name, node.node.metadata.labels)
        selectors = (device_class.get("spec") or {}).get("selectors") or ()
        total = used = 0
        for piece in self._slices:
            spec = piece.get("spec") or {}
            driver, pool = spec.get("driver", ""), (spec.get("pool") or {}).get("name", "")
            for device in _devices_for(view, spec):
                if not self._selects(selectors, driver, device):
                    continue
                total += 1
                if self._state.has(DeviceID(driver, pool, device.get("name", ""))):
                    used += 1
        return total, used

    def _selects(self, selectors: Sequence[Tree], driver: str, device: Tree) -> bool:
        parts = ("attributes", "capacity")
        shown: Tree = {key: device[key] for key in parts if key in device}
        for selector in selectors:
            cel = selector.get("cel")
            if cel is None:
                continue
            if not self._dra.select(cel.get("expression", ""), driver, shown).selected:
                return False
        return True


def _devices_for(node: NodeView, spec: Tree) -> Sequence[Tree]:
    """Return the devices of a slice that a node can use. PoolError."""
    devices: Sequence[Tree] = spec.get("devices") or ()
    if spec.get("perDeviceNodeSelection"):
        return [each for each in devices if _is_for(node, each)]
    name, everywhere = spec.get("nodeName") or "", bool(spec.get("allNodes"))
    if not everywhere and name != node.name:
        if spec.get("nodeSelector") is not None:
            return devices if node_matches(node, spec) else ()
        if name:
            return ()
    return devices


def _is_for(node: NodeView, device: Tree) -> bool:
    if device.get("allNodes") or (device.get("nodeName") or "") == node.name:
        return True
    return device.get("nodeSelector") is not None and node_matches(node, device)
