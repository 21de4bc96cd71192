"""ServiceCIDRs. Upstream: pkg/registry/networking/servicecidr, pkg/apis/networking."""

from __future__ import annotations

import ipaddress

from controlplane.api.go_values import go_json
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import cidr_problems, immutable, problems
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.schema.field_errors import FieldError, Raw, invalid, required

__all__ = ["KIND"]


def validate_service_cidr(tree: Tree) -> list[FieldError]:
    """Return the errors of a ServiceCIDR: a range, or one of each family."""
    cidrs = (tree.get("spec") or {}).get("cidrs") or []
    path = "spec.cidrs"
    if not cidrs:
        return [required(path, "at least one CIDR required")]
    if len(cidrs) > 2:
        spec = Raw(go_json({"CIDRs": list(cidrs)}))
        return [invalid(path, spec, "may only hold up to 2 values")]
    errors: list[FieldError] = []
    for index, cidr in enumerate(cidrs):
        found = cidr_problems(cidr)
        errors += problems(f"{path}[{index}]", cidr, found)
        if not found:
            network = ipaddress.ip_network(cidr, strict=False)
            if str(network) != cidr:
                text = f'must be in canonical form ("{network}")'
                errors.append(invalid(f"{path}[{index}]", cidr, text))
    if len(cidrs) == 2 and _same_family(*cidrs):
        text = (
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and "
            "2001:db8::/64"
        )
        errors.append(invalid(path, cidrs, text))
    return errors


def _same_family(one: str, other: str) -> bool:
    """Return whether two texts are ranges of the same family; what is no range has none."""
    if cidr_problems(one) or cidr_problems(other):
        return False
    return (":" in one) == (":" in other)


def validate_service_cidr_update(new: Tree, old: Tree) -> list[FieldError]:
    """Ranges may only be joined by one of the other family."""
    cidrs, was = ((each.get("spec") or {}).get("cidrs") or [] for each in (new, old))
    if len(cidrs) == len(was):
        pairs = enumerate(zip(cidrs, was, strict=True))
        return [e for index, pair in pairs for e in immutable(*pair, f"spec.cidrs[{index}]")]
    if len(was) == 1 and len(cidrs) == 2:
        return immutable(cidrs[0], was[0], "spec.cidrs[0]") + validate_service_cidr(new)
    return immutable(cidrs, was, "spec.cidrs")


KIND = Kind(
    strategy=Strategy(
        rule=validate_service_cidr,
        update_rule=validate_service_cidr_update,
        status_keeps_meta=True,
    ),
    row=lambda tree, now: [
        name_of(tree),
        ",".join(part_of(tree, "spec").get("cidrs") or ()),
        age_of(tree, now),
    ],
)
