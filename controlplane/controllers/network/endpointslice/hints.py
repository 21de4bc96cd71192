"""Hints from a service's trafficDistribution. Upstream: k8s.io/endpointslice/trafficdist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.controllers.network.endpointslice.packing import own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.service import Service
    from controlplane.api.tree import Tree
    from controlplane.controllers.network.endpointslice.packing import Plan

PREFER_SAME_NODE: Final = "PreferSameNode"
DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", PREFER_SAME_NODE)
ANNOTATIONS: Final = (
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
)


def by_topology(service: Service) -> bool:
    """Return whether an annotation asks for hints by the zones' share of CPU; the older one is asked first."""
    found = next((name for name in ANNOTATIONS if name in service.annotations), None)
    return found is not None and service.annotations[found] in ("Auto", "auto")


def distributed(service: Service) -> bool:
    """Return whether trafficDistribution decides about hints."""
    return service.spec.traffic_distribution in DISTRIBUTIONS and not by_topology(service)


def is_ready(endpoint: Tree) -> bool:
    """Return whether an endpoint is said to be ready."""
    return (endpoint.get("conditions") or {}).get("ready") is True


def distribute(service: Service, plan: Plan, existing: Sequence[Tree]) -> None:
    """Give ready endpoints the hints of their own zone, and of their node if that is preferred."""
    nodes = service.spec.traffic_distribution == PREFER_SAME_NODE
    for found in plan.unchanged(existing):
        endpoints = found.get("endpoints") or ()
        if any(is_ready(each) and each.get("hints") != _hints(each, nodes) for each in endpoints):
            plan.update.append(own(found))
    for found in (*plan.create, *plan.update):
        for endpoint in found["endpoints"]:
            if is_ready(endpoint):
                set_hints(endpoint, _hints(endpoint, nodes))


def _hints(endpoint: Tree, nodes: bool) -> Tree | None:
    hints: Tree = {}
    if endpoint.get("zone") is not None:
        hints["forZones"] = [{"name": endpoint["zone"]}]
    if nodes and endpoint.get("nodeName") is not None:
        hints["forNodes"] = [{"name": endpoint["nodeName"]}]
    return hints or None


def set_hints(endpoint: Tree, hints: Tree | None) -> None:
    """Set or remove the hints of an endpoint of our own."""
    if hints is None:
        endpoint.pop("hints", None)
    else:
        endpoint["hints"] = hints


def remove_hints(plan: Plan, existing: Sequence[Tree]) -> None:
    """Take all hints away, also from slices that would not have been written."""
    for found in plan.unchanged(existing):
        if any(each.get("hints") is not None for each in found.get("endpoints") or ()):
            plan.update.append(own(found))
    for found in (*plan.create, *plan.update):
        for endpoint in found["endpoints"]:
            set_hints(endpoint, None)
