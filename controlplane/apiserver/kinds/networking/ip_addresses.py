"""IPAddresses. Upstream: pkg/registry/networking/ipaddress, pkg/apis/networking."""

from __future__ import annotations

import ipaddress

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import immutable, name_at, problems
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, required

__all__ = ["KIND"]


def address_name(name: str) -> names.Problems:
    """The name of an IPAddress is the address, in canonical form."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return ("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",)
    if str(address) != name:
        return (f"not a valid address in canonical form ({address})",)
    return ()


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
    return immutable(ref, was, "spec.parentRef")


KIND = Kind(
    strategy=Strategy(
        rule=validate_ip_address,
        update_rule=validate_ip_address_update,
        has_status=False,
        name_rule=address_name,
    )
)
