"""The emulated DRA drivers of a cluster, by node: those of Node annotations, and those of slices that a user writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from controlplane.kubelet.cm.dra.driver import (
    DEVICES,
    DriverOptions,
    drivers_of_node,
    with_given,
)

if TYPE_CHECKING:
    from controlplane.api.tree import Tree

__all__ = ["Devices", "devices_of_objects", "needs_devices"]

GROUP = "resource.k8s.io/"


@frozen
class Devices:
    """Dynamic resource allocation in a cluster.

    Args:
        everywhere: drivers whose slices a user writes for any node.
        by_node: the same for one node each.
    """

    everywhere: tuple[str, ...] = ()
    by_node: Mapping[str, tuple[str, ...]] = field(factory=dict)

    def drivers(self, node: Tree) -> Mapping[str, DriverOptions]:
        """Return the drivers on a node by name."""
        name = node["metadata"]["name"]
        names = dict.fromkeys((*self.everywhere, *self.by_node.get(name, ())))
        return with_given(drivers_of_node(node), tuple(names), node)


def _has_claims(tree: Tree) -> bool:
    """Return whether a pod, or a workload's pod template, names claims."""
    spec: Any = tree.get("spec")
    while isinstance(spec, dict):
        if spec.get("resourceClaims"):
            return True
        spec = (spec.get("jobTemplate") or spec.get("template") or {}).get("spec")
    return False


def needs_devices(tree: Tree) -> bool:
    """Return whether an object has to do with dynamic resource allocation."""
    api_version = tree.get("apiVersion")
    if isinstance(api_version, str) and api_version.startswith(GROUP):
        return True
    if tree.get("kind") == "Node":
        return DEVICES in ((tree.get("metadata") or {}).get("annotations") or {})
    return _has_claims(tree)


def devices_of_objects(objects: Iterable[Tree]) -> Devices | None:
    """Return the drivers that objects ask for; None where nothing has to do with devices."""
    everywhere: dict[str, None] = {}
    by_node: dict[str, tuple[str, ...]] = {}
    needed = False
    for tree in objects:
        needed = needed or needs_devices(tree)
        spec = tree.get("spec")
        if tree.get("kind") != "ResourceSlice" or not isinstance(spec, dict):
            continue
        driver, node = spec.get("driver"), spec.get("nodeName")
        if not driver:
            continue
        if node:
            by_node[node] = (*by_node.get(node, ()), driver)
        else:
            everywhere[driver] = None
    return Devices(tuple(everywhere), by_node) if needed else None
