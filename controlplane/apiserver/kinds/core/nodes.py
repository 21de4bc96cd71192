"""Nodes. Upstream: pkg/registry/core/node, pkg/apis/core/validation."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from controlplane.api.equality import Seen
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.cells import age_of, name_of, part_of
from controlplane.apiserver.kinds.checks import cidr_problems, problems, when
from controlplane.apiserver.kinds.core.pods.placement import validate_taint_effect
from controlplane.apiserver.kinds.core.resources import resource_list, validate_amount
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import label_name
from controlplane.apiserver.kinds.strategy import Context, Strategy, without
from controlplane.apiserver.kinds.trees import inside
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)

__all__ = ["KIND"]


def default_node(tree: Tree) -> Tree:
    """Default a node: the allocatable resources follow the capacity."""

    def status(status: Tree) -> Tree:
        if "config" in status:
            status = {key: value for key, value in status.items() if key != "config"}
        status = inside(inside(status, "capacity", resource_list), "allocatable", resource_list)
        if status.get("capacity") and "allocatable" not in status:
            status = {**status, "allocatable": status["capacity"]}
        return status

    def spec(spec: Tree) -> Tree:
        one, all_of_them = spec.get("podCIDR"), spec.get("podCIDRs")
        if one and (not all_of_them or all_of_them[0] != one):  # the older field wins
            return {**spec, "podCIDRs": [one]}
        if all_of_them and not one:
            return {**spec, "podCIDR": all_of_them[0]}
        return spec

    return inside(inside(tree, "status", status), "spec", spec)


def validate_node(tree: Tree) -> list[FieldError]:
    """Return the errors of a node."""
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
    """Return the errors of the features that a node declares: sorted names, each once."""
    errors: list[FieldError] = []
    for index, name in enumerate(features):
        path = f"status.declaredFeatures[{index}]"
        if index and features[index - 1] == name:
            errors.append(duplicate(path, name))
        elif index and features[index - 1] > name:
            errors.append(invalid(path, name, "list must be sorted alphabetically"))
        if not _FEATURE.fullmatch(name):
            text = f"invalid feature name {quote(name)}: {_FEATURE_TEXT}"
            errors.append(invalid(path, name, text))
    return errors


def _cidrs(spec: Tree) -> list[FieldError]:
    """The blocks of addresses of a node's pods: one for each family."""
    errors: list[FieldError] = []
    cidrs = spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])
    bad = False
    for index, text in enumerate(cidrs):
        texts = cidr_problems(text)
        bad = bad or bool(texts)
        errors += problems(f"spec.podCIDRs[{index}]", text, texts)
    if len(cidrs) > 1 and not bad:
        versions = [ipaddress.ip_network(text, strict=False).version for text in cidrs]
        errors += when(
            len(cidrs) > 2 or len(set(versions)) < len(versions),
            invalid,
            "spec.podCIDRs",
            cidrs,
            "may specify no more than one CIDR for each IP family",
        )
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
            error = duplicate(
                place,
                {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")},
            )
            errors.append(
                FieldError(
                    error.reason, place, error.value, "taints must be unique by key and effect pair"
                )
            )
        seen[key, effect] = None
    return errors


def validate_node_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed node."""
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = (
        _node_resources(new.get("status") or {})
        if new.get("status") is not old.get("status")
        else []
    )
    errors += _features((new.get("status") or {}).get("declaredFeatures") or [])
    addresses = Seen()
    for index, address in enumerate((new.get("status") or {}).get("addresses") or ()):
        if addresses.again(address):
            shown = {"Type": address.get("type", ""), "Address": address.get("address", "")}
            errors.append(duplicate(f"status.addresses[{index}]", shown))
    if spec.get("podCIDRs") != was.get("podCIDRs"):
        errors += _cidrs(spec)
    cidrs = was.get("podCIDRs") or []
    text = 'node updates may not change podCIDR except from "" to valid'
    errors += when(cidrs and spec.get("podCIDRs", []) != cidrs, forbidden, "spec.podCIDRs", text)
    errors += when(
        was.get("providerID") and spec.get("providerID") != was["providerID"],
        forbidden,
        "spec.providerID",
        'node updates may not change providerID except from "" to valid',
    )
    if spec.get("taints") is not was.get("taints"):
        errors += (
            _taints(spec.get("taints") or [], "metadata.taints") * 2
        )  # in both upstream checks
    moved = spec.get("externalID", "") != was.get("externalID", "")
    errors += when(moved, forbidden, "spec.externalID", "may not be updated")
    return errors


def node_warnings(tree: Tree) -> list[str]:
    """Return the warnings for a node: fields that have no effect any more."""
    spec = tree.get("spec") or {}
    found = []
    if spec.get("configSource") is not None:
        found.append("spec.configSource: the feature is removed")
    if spec.get("externalID"):
        found.append("spec.externalID: this field is deprecated, and is unused by Kubernetes")
    return found


class NodeStrategy(Strategy):
    """Nodes keep the status they are created with."""

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Return a new object of this kind with the fields that the server sets."""
        if "configSource" in (tree.get("spec") or {}):
            tree = {**tree, "spec": without(tree["spec"], "configSource")}
        return tree

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """Return an update of this kind with the fields and generation that the server sets."""
        if "configSource" not in (old.get("spec") or {}):
            new = inside(new, "spec", lambda spec: without(spec, "configSource"))
        return super().prepare_update(ctx, new, old)


def _row(tree: Tree, now: int) -> list[Any]:
    meta, spec, state = tree["metadata"], part_of(tree, "spec"), part_of(tree, "status")
    words = []
    for condition in state.get("conditions") or ():
        if condition.get("type") == "Ready":
            words = ["Ready" if condition.get("status") == "True" else "NotReady"]
    words = words or ["Unknown"]
    if spec.get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles: dict[str, None] = {}
    for key, value in (meta.get("labels") or {}).items():
        if key.startswith(prefix) and len(key) > len(prefix):
            roles[key[len(prefix) :]] = None
        elif key == "kubernetes.io/role" and value:
            roles[value] = None
    info = part_of(state, "nodeInfo")

    def address(kind: str) -> str:
        for entry in state.get("addresses") or ():
            if entry.get("type") == kind:
                return str(entry.get("address", ""))
        return "<none>"

    return [
        name_of(tree),
        ",".join(words),
        ",".join(sorted(roles)) or "<none>",
        age_of(tree, now),
        info.get("kubeletVersion", ""),
        address("InternalIP"),
        address("ExternalIP"),
        info.get("osImage") or "<unknown>",
        _kernel(info),
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _kernel(info: Tree) -> str:
    version, architecture = info.get("kernelVersion"), info.get("architecture")
    if not version:
        return "<unknown>"
    return f"{version} ({architecture})" if architecture else str(version)


KIND = Kind(
    strategy=NodeStrategy(
        default=default_node,
        rule=validate_node,
        update_rule=validate_node_update,
        status_rule=validate_node_update,
        warn=node_warnings,
        meta_steps="AU",
    ),
    row=_row,
    selectable={"metadata.name": "", "spec.unschedulable": "false"},
)
