"""CSINodes. Upstream: pkg/registry/storage/csinode, pkg/apis/storage."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import non_negative_field, when
from controlplane.apiserver.kinds.core.volume_sources import csi_driver_name
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.kinds.strategy import Strategy, without
from controlplane.apiserver.schema.field_errors import FieldError, duplicate, invalid, required

__all__ = ["KIND"]

MAX_NODE_ID = 192


def validate_csi_node(tree: Tree) -> list[FieldError]:
    """Return the errors of a CSI node."""
    errors: list[FieldError] = []
    seen: dict[str, None] = {}
    for index, driver in enumerate((tree.get("spec") or {}).get("drivers") or ()):
        path = f"spec.drivers[{index}]"
        name = driver.get("name", "")
        errors += csi_driver_name(name, f"{path}.name")
        node = driver.get("nodeID", "")
        errors += when(not node, required, f"{path}.nodeID")
        if len(node.encode()) > MAX_NODE_ID:
            text = f"must be {MAX_NODE_ID} characters or less"
            errors.append(invalid(f"{path}.nodeID", node, text))
        errors += non_negative_field(
            driver.get("allocatable") or {}, "count", f"{path}.allocatable"
        )
        errors += when(name in seen, duplicate, f"{path}.name", name)
        seen[name] = None
        keys: dict[str, None] = {}
        for key in driver.get("topologyKeys") or ():
            errors += when(not key, required, path)
            errors += when(key in keys, duplicate, path, key)
            keys[key] = None
            errors += label_name(key, path)
    return errors


def validate_csi_node_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed CSI node; a kept driver changes only in the volumes that it can attach."""
    errors = validate_csi_node(new)
    before = {each.get("name", ""): each for each in (old.get("spec") or {}).get("drivers") or ()}
    for driver in (new.get("spec") or {}).get("drivers") or ():
        was = before.get(driver.get("name", ""))
        if was is not None and without(was, "allocatable") != without(driver, "allocatable"):
            shown = {
                "Name": driver.get("name", ""),
                "NodeID": driver.get("nodeID", ""),
                "TopologyKeys": driver.get("topologyKeys"),
                "Allocatable": None,
            }
            errors.append(invalid("spec.drivers", shown, "field is immutable"))
    return errors


KIND = Kind(
    strategy=Strategy(
        rule=validate_csi_node,
        update_rule=validate_csi_node_update,
        has_status=False,
        returns_deleted=True,
        unconditional_update=False,
        meta_steps="A",
    ),
    row=lambda tree, now: [
        name_of(tree),
        len(part_of(tree, "spec").get("drivers") or ()),
        age_of(tree, now),
    ],
)
