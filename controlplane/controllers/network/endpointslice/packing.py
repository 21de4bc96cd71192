"""Endpoints into slices, with as few writes as possible. Upstream: k8s.io/endpointslice/reconciler.go.

Upstream takes slices and endpoints in the order of its maps; here each has the order of the caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, field

from controlplane.controllers.common.ownership import controller_reference
from controlplane.controllers.network.endpointslice.endpoints import (
    NO_CLUSTER_IP,
    Identity,
    equal_beyond_identity,
    identity,
    sorted_ports,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.service import Service
    from controlplane.api.tree import Tree

MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME: Final = "kubernetes.io/service-name"
HEADLESS: Final = "service.kubernetes.io/headless"
MANAGER: Final = "endpointslice-controller.k8s.io"
RESERVED: Final = (MANAGED_BY, SERVICE_NAME, HEADLESS)


@define
class Plan:
    """Slices to write, as trees of our own that may still be changed, and slices to delete."""

    create: list[Tree] = field(factory=list)
    update: list[Tree] = field(factory=list)
    delete: list[Tree] = field(factory=list)

    def add(self, other: Plan) -> None:
        """Take another plan in."""
        self.create += other.create
        self.update += other.update
        self.delete += other.delete

    def unchanged(self, existing: Sequence[Tree]) -> list[Tree]:
        """The slices that are neither written nor deleted."""
        names = {name_of(each) for each in (*self.update, *self.delete)}
        return [each for each in existing if name_of(each) not in names]


def name_of(found: Tree) -> str:
    """The name of a slice; "" if it is still to be made."""
    return str(found["metadata"].get("name", ""))


def labels_of(found: Tree) -> Tree:
    """The labels of a slice."""
    labels: Tree = found["metadata"].get("labels") or {}
    return labels


def own(found: Tree) -> Tree:
    """A copy whose endpoints and metadata may be changed."""
    metadata = found["metadata"]
    return {
        **found,
        "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {})}},
        "endpoints": [dict(each) for each in found.get("endpoints") or ()],
        "ports": sorted_ports(found.get("ports")),
    }


def slice_labels(service: Service) -> Tree:
    """The labels of a service's slices: the service's own, and the three that are reserved."""
    labels = {key: value for key, value in service.labels.items() if key not in RESERVED}
    if service.spec.cluster_ip in ("", NO_CLUSTER_IP):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.name, MANAGED_BY: MANAGER}


def labels_changed(found: Tree, service: Service) -> bool:
    """Return whether the service's own labels are not those of the slice; reserved ones do not count."""
    there, wanted = labels_of(found), service.labels
    return {key: value for key, value in there.items() if key not in RESERVED} != {
        key: value for key, value in wanted.items() if key not in RESERVED
    }


def new_slice(service: Service, address_type: str, ports: Sequence[Tree]) -> Tree:
    """A slice without endpoints."""
    prefix = f"{service.name}-"
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": prefix,
            "namespace": service.namespace,
            "labels": slice_labels(service),
            "annotations": {},
            "ownerReferences": [{**controller_reference(service), "apiVersion": "v1"}],
        },
        "addressType": address_type,
        "endpoints": [],
        "ports": list(ports),
    }


def owned_by(found: Tree, service: Service) -> bool:
    """Return whether a slice belongs to this service and not to a former one of its name."""
    return any(
        (each.get("uid"), each.get("kind"), each.get("apiVersion"))
        == (service.uid, "Service", "v1")
        for each in found["metadata"].get("ownerReferences") or ()
    )


def same_placeholder(found: Tree, wanted: Tree) -> bool:
    """Return whether a slice without endpoints is as it should be; a label that is "" may as well be absent."""
    there, labels = labels_of(found), labels_of(wanted)
    return (
        found["metadata"].get("namespace") == wanted["metadata"].get("namespace")
        and found.get("addressType") == wanted["addressType"]
        and not found.get("endpoints")
        and not found.get("ports")
        and all(there.get(key, "") == labels.get(key, "") for key in {**there, **labels})
    )


def pack(
    service: Service,
    existing: Sequence[Tree],
    desired: dict[Identity, Tree],
    empty: Tree,
    limit: int,
) -> Plan:
    """Return the changes after which slices of one set of ports hold the desired endpoints.

    Endpoints stay where they are. Slices that change anyway are filled up first, the fullest ones
    before others; the rest goes into the slice that it fills best, else into new ones like `empty`.
    """
    left = dict(desired)
    changed: list[Tree] = []
    unchanged: list[Tree] = []
    plan = Plan()
    for found in existing:
        before = found.get("endpoints") or ()
        kept: list[Tree] = []
        differs = False
        for endpoint in before:
            wanted = left.pop(identity(endpoint), None)
            if wanted is not None:
                kept.append(dict(wanted))
                differs = differs or not equal_beyond_identity(wanted, endpoint)
        if (differs or len(kept) != len(before)) and not kept:
            plan.delete.append(found)
        elif differs or len(kept) != len(before) or labels_changed(found, service):
            mine = own(found)
            if differs or len(kept) != len(before):
                mine["endpoints"] = kept
            mine["metadata"]["labels"] = slice_labels(service)
            changed.append(mine)
        else:
            unchanged.append(found)
    if left:
        for each in sorted(changed, key=lambda found: -len(found["endpoints"])):
            _fill(each, left, limit)
    while left:
        target = _best_fit(unchanged, len(left), limit) if len(left) < limit else None
        if target is None:
            mine = own(empty)
            plan.create.append(mine)
        else:
            unchanged.remove(target)
            mine = own(target)
            changed.append(mine)
        _fill(mine, left, limit)
    plan.update = changed
    return plan


def _fill(found: Tree, left: dict[Identity, Tree], limit: int) -> None:
    while left and len(found["endpoints"]) < limit:
        first = next(iter(left))
        found["endpoints"].append(dict(left.pop(first)))


def _best_fit(slices: Sequence[Tree], count: int, limit: int) -> Tree | None:
    """The slice that has the least room left when `count` are added; one that stays empty is none."""
    best, closest = None, limit
    for found in slices:
        room = limit - count - len(found.get("endpoints") or ())
        if 0 <= room < closest:
            best, closest = found, room
    return best
