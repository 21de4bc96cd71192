"""Validation that pod groups and the templates of workloads share.

The rules are upstream's declarative ones: a value that an update leaves as it is is not validated
again, a value that may not change is refused without a look at its content. Upstream:
pkg/apis/scheduling/v1alpha2/zz_generated.validations.go, apimachinery pkg/api/validate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.checks import entries, named, problems
from controlplane.apiserver.kinds.strategy import without
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from controlplane.apiserver.schema.field_order import in_order

__all__ = [
    "CLAIMS",
    "MAX_CLAIMS",
    "PREEMPTION",
    "TOPOLOGY",
    "VERSION",
    "Checked",
    "gated",
    "immutable",
    "long_name",
    "one_member",
    "repeated_names",
    "short_name",
    "validate_parts",
    "without_disabled",
]

CLAIMS: Final = "DRAWorkloadResourceClaims"
PREEMPTION: Final = "WorkloadAwarePreemption"
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
VERSION: Final = "io.k8s.api.scheduling.v1alpha2."
MAX_CLAIMS = 4
MAX_TOPOLOGY = 1
MAX_PRIORITY = 1_000_000_000
_MODES = ("Pod", "PodGroup")
_GATED = {
    "schedulingConstraints": TOPOLOGY,
    "resourceClaims": CLAIMS,
    "disruptionMode": PREEMPTION,
    "priorityClassName": PREEMPTION,
    "priority": PREEMPTION,
}
"""The fields of a group or template that need a gate."""


@frozen(eq=False)
class Checked:
    """A part of an object in validation: the new value, the old one of an update, and the gates.

    `old` is None for a part that has no counterpart in the old object. `updates`: an update is
    validated, also where there is no counterpart.
    """

    new: Tree
    old: Tree | None
    gates: frozenset[str]
    updates: bool

    def unchanged(self, key: str) -> bool:
        """Return whether an update leaves a field as it is."""
        return self.old is not None and self.new.get(key) == self.old.get(key)


def long_name(name: str) -> names.Problems:
    """Return the problems of a DNS subdomain, as declarative validation words them."""
    return _in_bytes(names.dns_subdomain(name))


def short_name(name: str) -> names.Problems:
    """Return the problems of a DNS label, as declarative validation words them."""
    return _in_bytes(names.dns_label(name))


def _in_bytes(texts: names.Problems) -> names.Problems:
    """Return problems with the limit of a length in bytes. Upstream: apimachinery pkg/api/validate/content."""
    return tuple(
        f"{text.removesuffix(' characters')} bytes" if text.endswith(" characters") else text
        for text in texts
    )


def without_disabled(tree: Tree, old: Tree | None, gates: frozenset[str]) -> Tree:
    """Return a group's spec, or a template, without the fields of disabled gates that the old one does not use."""
    for key, gate in _GATED.items():
        used = old is not None and old.get(key) is not None
        if gate not in gates and not used:
            tree = without(tree, key)
    return tree


def immutable(checked: Checked, path: str) -> list[FieldError]:
    """Return the error of a changed value that may not change. The value is not shown."""
    return [invalid(path, None, "field is immutable")] if checked.updates else []


def gated(checked: Checked, key: str, path: str) -> list[FieldError]:
    """Return the error of a set field whose gate is off."""
    off = _GATED[key] not in checked.gates
    return [forbidden(path, "")] if off and checked.new.get(key) is not None else []


def one_member(tree: Tree, members: Iterable[str], path: str) -> list[FieldError]:
    """Return the error of a union in which not exactly one member is set."""
    known = tuple(members)
    given = [key for key in known if tree.get(key) is not None]
    listed = ", ".join(f"`{key}`" for key in known)
    if len(given) > 1:
        return [invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")]
    return [] if given else [invalid(path, "", f"must specify one of: {listed}")]


def repeated_names(items: list[Tree], path: str, type_name: str) -> list[FieldError]:
    """Return an error for each item of a list whose name stands before; the error shows the item."""
    seen: set[str] = set()
    errors = []
    for index, item in enumerate(items):
        name = item.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", in_order(type_name, item)))
        seen.add(name)
    return errors


def validate_parts(checked: Checked, path: str, *, fixed: bool) -> list[FieldError]:
    """Return the errors of the fields that a group's spec and a template have in common.

    Args:
        checked: the spec or the template.
        path: the place of it.
        fixed: the fields may not change, as those of a group.
    """
    errors: list[FieldError] = []
    for key, rule in _RULES:
        if checked.unchanged(key):
            continue
        place = f"{path}.{key}"
        found = gated(checked, key, place) if key in _BY_GATE else []
        on = key not in _BY_GATE or _GATED[key] in checked.gates
        if on and (fixed or key == "resourceClaims"):
            found = immutable(checked, place)
        if key == "resourceClaims":
            count = len(checked.new.get(key) or ())
            found += [too_many(place, count, MAX_CLAIMS)] if count > MAX_CLAIMS else []
        if not found and (on or key == "schedulingPolicy"):
            found = rule(checked, place)
        errors += found
    return errors


_BY_GATE = frozenset(_GATED) - {"resourceClaims"}
"""The fields that are refused while their gate is off. Claims are only dropped."""


def _policy(checked: Checked, path: str) -> list[FieldError]:
    policy = checked.new.get("schedulingPolicy") or {}
    errors = one_member(policy, ("basic", "gang"), path)
    if policy.get("gang") is None:
        return errors
    count, place = policy["gang"].get("minCount", 0), f"{path}.gang.minCount"
    if not count:
        return [*errors, required(place)]
    if count < 1:
        errors.append(invalid(place, count, "must be greater than or equal to 1"))
    return errors


def _constraints(checked: Checked, path: str) -> list[FieldError]:
    constraints = checked.new.get("schedulingConstraints") or {}
    topology = constraints.get("topology") or []
    if len(topology) > MAX_TOPOLOGY:
        return [too_many(f"{path}.topology", len(topology), MAX_TOPOLOGY)]
    errors: list[FieldError] = []
    for constraint, place in entries(constraints, "topology", path):
        errors += named(constraint, "key", place, names.label_key)
    return errors


def _claims(checked: Checked, path: str) -> list[FieldError]:
    claims = checked.new.get("resourceClaims") or []
    errors = repeated_names(claims, path, VERSION + "PodGroupResourceClaim")
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        errors += one_member(claim, ("resourceClaimName", "resourceClaimTemplateName"), place)
        errors += named(claim, "name", place, short_name)
        for key in ("resourceClaimName", "resourceClaimTemplateName"):
            if claim.get(key) is not None:
                errors += problems(f"{place}.{key}", claim[key], long_name(claim[key]))
    return errors


def _mode(checked: Checked, path: str) -> list[FieldError]:
    mode = checked.new.get("disruptionMode")
    return [] if mode is None or mode in _MODES else [not_supported(path, mode, _MODES)]


def _class_name(checked: Checked, path: str) -> list[FieldError]:
    name = checked.new.get("priorityClassName")
    return problems(path, name, long_name(name)) if name else []


def _priority(checked: Checked, path: str) -> list[FieldError]:
    priority = checked.new.get("priority")
    if priority is None or priority <= MAX_PRIORITY:
        return []
    return [invalid(path, priority, f"must be less than or equal to {MAX_PRIORITY}")]


_RULES: tuple[tuple[str, Callable[[Checked, str], list[FieldError]]], ...] = (
    ("schedulingPolicy", _policy),
    ("schedulingConstraints", _constraints),
    ("resourceClaims", _claims),
    ("disruptionMode", _mode),
    ("priorityClassName", _class_name),
    ("priority", _priority),
)
"""The shared fields in the order in which upstream validates them."""
