"""CSIStorageCapacities. Upstream: pkg/registry/storage/csistoragecapacity, pkg/apis/storage."""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import immutable, problems, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import validate_label_selector
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, invalid
from controlplane.apiserver.schema.field_order import in_order

__all__ = ["KIND"]


def validate_storage_capacity(tree: Tree) -> list[FieldError]:
    """Return the errors of a CSI storage capacity."""
    errors = validate_label_selector(tree.get("nodeTopology"), "nodeTopology")
    name = tree.get("storageClassName", "")
    errors += problems("storageClassName", name, names.dns_subdomain(name))
    capacity = tree.get("capacity")
    errors += when(
        capacity is not None and quantity.parse(capacity).sign() < 0,
        invalid,
        "capacity",
        capacity,
        "must be greater than or equal to 0",
    )
    return errors


def validate_storage_capacity_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed capacity, which stays with its nodes and class."""
    errors = validate_storage_capacity(new)
    selector = new.get("nodeTopology")
    shown = None if selector is None else in_order(_SELECTOR, selector)
    if selector != old.get("nodeTopology"):
        errors += immutable(shown, UNEQUAL, "nodeTopology")
    name, was = new.get("storageClassName", ""), old.get("storageClassName", "")
    return errors + immutable(name, was, "storageClassName")


_SELECTOR = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
UNEQUAL = object()


KIND = Kind(
    strategy=Strategy(
        rule=validate_storage_capacity,
        update_rule=validate_storage_capacity_update,
        has_status=False,
        unconditional_update=False,
        meta_steps="AU",
    )
)
