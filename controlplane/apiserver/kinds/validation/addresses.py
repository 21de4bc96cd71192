"""Service address ranges and single addresses. Upstream: pkg/apis/networking/validation."""

from __future__ import annotations

import ipaddress

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.checks import problems
from controlplane.apiserver.kinds.validation.shared import cidr_problems, immutable
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required

__all__ = [
    "address_name", "validate_ip_address", "validate_ip_address_update", "validate_service_cidr",
    "validate_service_cidr_update",
]  # fmt: skip


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
        if not value:
            errors.append(required(f"{path}.{key}"))
        else:
            errors += problems(f"{path}.{key}", value, names.path_segment(value))
    namespace = ref.get("namespace", "")
    if namespace:
        errors += problems(f"{path}.namespace", namespace, names.path_segment(namespace))
    return errors


def validate_ip_address_update(new: Tree, old: Tree) -> list[FieldError]:
    """The address stays with its owner."""
    ref, was = ((each.get("spec") or {}).get("parentRef") for each in (new, old))
    return immutable(ref, was, "spec.parentRef")


def validate_service_cidr(tree: Tree) -> list[FieldError]:
    """A range, or one of each family."""
    cidrs = (tree.get("spec") or {}).get("cidrs") or []
    path = "spec.cidrs"
    if not cidrs:
        return [required(path, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [invalid(path, cidrs, "may only hold up to 2 values")]
    errors: list[FieldError] = []
    families = []
    for index, cidr in enumerate(cidrs):
        found = cidr_problems(cidr)
        errors += problems(f"{path}[{index}]", cidr, found)
        if not found:
            network = ipaddress.ip_network(cidr, strict=False)
            families.append(network.version)
            if str(network) != cidr:
                text = f'must be in canonical form ("{network}")'
                errors.append(invalid(f"{path}[{index}]", cidr, text))
    if len(cidrs) == 2 and (len(families) < 2 or families[0] == families[1]):
        text = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        errors.insert(0, invalid(path, cidrs, text))
    return errors


def validate_service_cidr_update(new: Tree, old: Tree) -> list[FieldError]:
    """Ranges may only be joined by one of the other family."""
    cidrs, was = ((each.get("spec") or {}).get("cidrs") or [] for each in (new, old))
    if len(cidrs) == len(was):
        pairs = enumerate(zip(cidrs, was, strict=True))
        return [e for index, pair in pairs for e in immutable(*pair, f"spec.cidrs[{index}]")]
    if len(was) == 1 and len(cidrs) == 2:
        return immutable(cidrs[0], was[0], "spec.cidrs[0]") + validate_service_cidr(new)
    return immutable(cidrs, was, "spec.cidrs")
