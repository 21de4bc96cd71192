"""IPAddresses. Upstream: pkg/registry/networking/ipaddress, pkg/apis/networking."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import name_at, problems
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required

__all__ = ["KIND"]


def address_name(name: str) -> names.Problems:
    """The name of an IPAddress is the address, in canonical form."""
    return names.strict_ip_problems(name)


def validate_ip_address(tree: Tree) -> list[FieldError]:
    """Return the errors of an IPAddress and its parent reference."""
    ref = (tree.get("spec") or {}).get("parentRef")
    path = "spec.parentRef"
    if ref is None:
        return [required(path)]
    group, resource = ref.get("group", ""), ref.get("resource", "")
    errors = problems(f"{path}.group", group, names.dns_subdomain(group)) if group else []
    for key, value in (("resource", resource), ("name", ref.get("name", ""))):
        errors += name_at(value, f"{path}.{key}", names.path_segment)
    namespace = ref.get("namespace", "")
    if namespace:
        errors += problems(f"{path}.namespace", namespace, names.path_segment(namespace))
    return errors


def validate_ip_address_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed IPAddress, which stays with its owner."""
    ref, was = ((each.get("spec") or {}).get("parentRef") for each in (new, old))
    if ref == was:
        return []
    shown = None if ref is None else {key: ref.get(key.lower(), "") for key in _REFERENCE}
    return [invalid("spec.parentRef", shown, "field is immutable")]


_REFERENCE = ("Group", "Resource", "Namespace", "Name")


def _row(tree: Tree, now: int) -> list[Any]:
    """Name, the object that has the address, and age, for which no column is declared."""
    ref = part_of(tree, "spec").get("parentRef")
    parent = "<none>"
    if ref is not None:
        resource = ".".join(filter(None, (ref.get("resource", ""), ref.get("group", ""))))
        parts = (resource.lower(), ref.get("namespace", ""), ref.get("name", ""))
        parent = "/".join(part for at, part in enumerate(parts) if part or at != 1)
    return [name_of(tree), parent, age_of(tree, now)]


KIND = Kind(
    strategy=Strategy(
        rule=validate_ip_address,
        update_rule=validate_ip_address_update,
        has_status=False,
        name_rule=address_name,
        meta_steps="AU",
    ),
    row=_row,
)
