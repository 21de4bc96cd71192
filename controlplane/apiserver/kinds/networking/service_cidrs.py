"""ServiceCIDRs. Upstream: pkg/registry/networking/servicecidr, pkg/apis/networking."""

from __future__ import annotations

import ipaddress

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.checks import cidr_problems, immutable, problems
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.schema.field_errors import FieldError, invalid, required

__all__ = ["KIND"]


def validate_service_cidr(tree: Tree) -> list[FieldError]:
    """Return the errors of a ServiceCIDR: a range, or one of each family."""
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


class ServiceCIDRStrategy(Strategy):
    """Ranges of services; their status may be written everywhere: upstream prepares nothing.

    The fields that upstream resets stand under a group's name that is not theirs, so every writer
    manages what it wrote. Upstream: pkg/registry/networking/servicecidr/strategy.go.
    """

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        return tree

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        return new

    def reset_fields(self, sub: str) -> tuple[tuple[str, ...], ...]:
        """Field paths that a write through the endpoint cannot set."""
        return ()


KIND = Kind(
    strategy=ServiceCIDRStrategy(
        rule=validate_service_cidr,
        update_rule=validate_service_cidr_update,
        status_keeps_meta=True,
    )
)
