"""Validation of nodes. Upstream: ValidateNode* in pkg/apis/core/validation."""

from __future__ import annotations

import ipaddress
import re

from controlplane.api.equality import Seen
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.resources import (
    validate_amount,
)
from controlplane.apiserver.kinds.validation.selectors import label_name, validate_taint_effect
from controlplane.apiserver.kinds.validation.shared import cidr_problems
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    go_quote,
    invalid,
    required,
)

__all__ = ["validate_node", "validate_node_update"]


def validate_node(tree: Tree) -> list[FieldError]:
    """A node."""
    spec = tree.get("spec") or {}
    errors = _taints(spec.get("taints") or [], "metadata.taints")
    errors += _node_resources(tree.get("status") or {})
    errors += _cidrs(spec)
    return errors + _features((tree.get("status") or {}).get("declaredFeatures") or [])


_FEATURE = re.compile(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z0-9]+)*")
_FEATURE_TEXT = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., "
    "MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)


def _features(features: list[str]) -> list[FieldError]:
    """Return the errors of the features that a node declares."""
    return [
        invalid(f"status.declaredFeatures[{index}]", name,
                f"invalid feature name {go_quote(name)}: {_FEATURE_TEXT}")
        for index, name in enumerate(features)
        if not _FEATURE.fullmatch(name)
    ]  # fmt: skip


def _cidrs(spec: Tree) -> list[FieldError]:
    """The blocks of addresses of a node's pods: one for each family."""
    errors: list[FieldError] = []
    cidrs = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    bad = False
    for index, text in enumerate(cidrs):
        problems = cidr_problems(text)
        bad = bad or bool(problems)
        errors += [invalid(f"spec.podCIDRs[{index}]", text, problem) for problem in problems]
    if len(cidrs) > 1 and not bad:
        versions = [ipaddress.ip_network(text, strict=False).version for text in cidrs]
        if len(cidrs) > 2 or len(set(versions)) < len(versions):
            errors.append(invalid("spec.podCIDRs", cidrs,
                                  "may specify no more than one CIDR for each IP family"
                                  ))  # fmt: skip
    return errors


def _node_resources(status: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text in sorted((status.get("capacity") or {}).items()):
        path = f"status.capacity.{name}"
        errors += validate_amount(name, text, path)
    for name, text in sorted((status.get("allocatable") or {}).items()):
        path = f"status.allocatable.{name}"
        errors += validate_amount(name, text, path)
    return errors


def _taints(taints: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: dict[tuple[str, str], None] = {}
    for index, taint in enumerate(taints):
        place = f"{path}[{index}]"
        key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
        errors += label_name(key, f"{place}.key")
        problems = names.label_value(value)
        if problems:
            errors.append(invalid(f"{place}.value", value, ";".join(problems)))
        if not effect:
            errors.append(required(f"{place}.effect"))
        else:
            errors += validate_taint_effect(effect, f"{place}.effect")
        if (key, effect) in seen:
            error = duplicate(place, {"Key": key, "Value": value, "Effect": effect,
                                      "TimeAdded": taint.get("timeAdded")})  # fmt: skip
            errors.append(FieldError(error.reason, place, error.value,
                                     "taints must be unique by key and effect pair"
                                     ))  # fmt: skip
        seen[key, effect] = None
    return errors


_NODE_MUTABLE = ("podCIDR", "podCIDRs", "providerID", "taints", "unschedulable", "configSource")


def validate_node_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed node."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = _node_resources(new.get("status") or {}) if new.get("status") is not old.get(
        "status") else []  # fmt: skip
    addresses = Seen()
    for index, address in enumerate((new.get("status") or {}).get("addresses") or ()):
        if addresses.again(address):
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            errors.append(duplicate(f"status.addresses[{index}]", shown))
    if spec.get("podCIDRs") != was.get("podCIDRs"):
        errors += _cidrs(spec)
    cidrs = was.get("podCIDRs") or []
    if cidrs and spec.get("podCIDRs", []) != cidrs:
        errors.append(forbidden("spec.podCIDRs",
                                "node updates may not change podCIDR except from \"\" to valid"
                                ))  # fmt: skip
    if was.get("providerID") and spec.get("providerID") != was["providerID"]:
        errors.append(forbidden("spec.providerID",
                                "node updates may not change providerID except from \"\" to valid"
                                ))  # fmt: skip
    if spec.get("taints") is not was.get("taints"):
        errors += (
            _taints(spec.get("taints") or [], "metadata.taints") * 2
        )  # in both upstream checks
    kept = {k: v for k, v in spec.items() if k not in _NODE_MUTABLE}
    before = {k: v for k, v in was.items() if k not in _NODE_MUTABLE}
    if kept != before:
        errors.append(forbidden("spec", (
            "node updates may only change labels, taints, or capacity (or configSource, if the "
            "DynamicKubeletConfig feature gate is enabled)"
        )))  # fmt: skip
    return errors
