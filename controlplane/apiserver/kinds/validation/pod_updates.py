"""Validation of changes to pods: what may change, in the spec and in the status.

Upstream: ValidatePodUpdate, ValidatePodStatusUpdate in pkg/apis/core/validation.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable
from typing import Any

from controlplane.api.equality import Seen, by_value, first_by_value
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.validation.pods import validate_pod_spec
from controlplane.apiserver.kinds.validation.selectors import validate_tolerations
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    required,
)
from controlplane.apiserver.schema.internal_form import difference, internal

__all__ = ["validate_ephemeral_update", "validate_pod_status_update", "validate_pod_update",
           "validate_whole_pod"]  # fmt: skip

_UPDATABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)\n"
)
_MAX_INT32 = 2**31 - 1


def validate_pod_update(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """What is wrong with an update of a pod. `written` is the spec as it was written."""
    spec, was = new["spec"], old["spec"]
    if spec is was:
        return []
    errors = validate_whole_pod(new, old)
    for key in ("containers", "initContainers"):
        found, stop = _container_updates(spec.get(key) or [], was.get(key) or [], f"spec.{key}")
        errors += found
        if stop:
            return errors
    found, stop = _deadline(spec, was)
    errors += found
    if stop:
        return errors
    errors += _tolerations(spec.get("tolerations") or [], was.get("tolerations") or [])
    errors += _gates(spec.get("schedulingGates") or [], was.get("schedulingGates") or [])
    munged = _munged(spec, was)
    if was.get("schedulingGates"):
        munged, found = _gated(munged, was)
        errors += found
    if munged != was:
        errors.append(forbidden("spec", _UPDATABLE + difference(
            internal("PodSpec", was), internal("PodSpec", munged, written))))  # fmt: skip
    return errors


def validate_whole_pod(new: Tree, old: Tree) -> list[FieldError]:
    """What is wrong with a pod that is to replace another."""
    errors = validate_pod_spec(new["spec"], "spec", old["spec"])
    for key in ("containers", "initContainers"):
        for index, container in enumerate(new["spec"].get(key) or ()):
            image = container.get("image", "")
            if image != image.strip():
                errors.append(invalid(f"spec.{key}[{index}].image", image,
                                      "must not have leading or trailing whitespace"
                                      ))  # fmt: skip
    return errors


def _container_updates(
    containers: list[Tree], was: list[Tree], path: str
) -> tuple[list[FieldError], bool]:
    if len(containers) != len(was):
        return [forbidden(path, "pod updates may not add or remove containers")], True
    errors = [
        required(f"{path}[{index}].image")
        for index, container in enumerate(containers)
        if not container.get("image")
    ]
    return errors, False


def _deadline(spec: Tree, was: Tree) -> tuple[list[FieldError], bool]:
    path = "spec.activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")
    if new is None:
        if old is None:
            return [], False
        return [invalid(path, None, "must not update from a positive integer to nil value")], False
    if not 0 <= new <= _MAX_INT32:
        return [invalid(path, new, "must be between 0 and 2147483647, inclusive")], True
    if old is not None and old < new:
        return [invalid(path, new, "must be less than or equal to previous value")], True
    return [], False


def _tolerations(new: list[Tree], old: list[Tree]) -> list[FieldError]:
    """Tolerations may be added; existing ones may change their seconds."""

    def core(toleration: Tree) -> Tree:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    if new != old:
        kept = Seen(core(toleration) for toleration in new)
        if not all(core(toleration) in kept for toleration in old):
            return [forbidden("spec.tolerations", (
                "existing toleration can not be modified except its tolerationSeconds"
            ))]  # fmt: skip
    return validate_tolerations(new, "spec.tolerations")


def _gates(new: list[Tree], old: list[Tree]) -> list[FieldError]:
    known = frozenset(gate.get("name", "") for gate in old)
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'",
        )
        for index, gate in enumerate(new)
        if gate.get("name", "") not in known
    ]


def _munged(spec: Tree, was: Tree) -> Tree:
    """The new spec with all that may change set back."""
    munged = dict(spec)
    for key in ("containers", "initContainers"):
        if key in spec:
            munged[key] = [
                {**container, "image": before.get("image", "")}
                for container, before in zip(spec[key], was.get(key) or (), strict=False)
            ]
    for key in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        if key in was:
            munged[key] = was[key]
        else:
            munged.pop(key, None)
    grace = was.get("terminationGracePeriodSeconds", 0)
    if grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = grace
    return munged


def _gated(munged: Tree, was: Tree) -> tuple[Tree, list[FieldError]]:
    """A gated pod may narrow where it can run."""
    errors: list[FieldError] = []
    selector, before = munged.get("nodeSelector") or {}, was.get("nodeSelector") or {}
    if selector != before:
        if any(selector.get(key) != value for key, value in before.items()):
            errors.append(invalid("spec.nodeSelector", munged.get("nodeSelector"), (
                "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            )))  # fmt: skip
        munged = _set(munged, "nodeSelector", was.get("nodeSelector"))
    affinity, old_affinity = munged.get("affinity") or {}, was.get("affinity") or {}
    node, old_node = affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if node != old_node:
        errors += _node_affinity(node or {}, old_node or {})
        restored = _set(affinity, "nodeAffinity", old_node)
        munged = _set(munged, "affinity", restored or was.get("affinity"))
    return munged, errors


def _set(tree: Tree, key: str, value: Any) -> Tree:
    if value is None:
        return {name: item for name, item in tree.items() if name != key}
    return {**tree, key: value}


def _node_affinity(new: Tree, old: Tree) -> list[FieldError]:
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    path = f"spec.affinity.nodeAffinity.{key}.nodeSelectorTerms"
    before = (old.get(key) or {}).get("nodeSelectorTerms") or []
    if not before:
        return []
    terms = (new.get(key) or {}).get("nodeSelectorTerms") or []
    if len(terms) != len(before):
        return [invalid(path, [internal("NodeSelectorTerm", term) for term in terms], (
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        ))]  # fmt: skip
    errors: list[FieldError] = []
    for index, (term, earlier) in enumerate(zip(terms, before, strict=True)):
        for part in ("matchExpressions", "matchFields"):
            had, has = earlier.get(part) or [], term.get(part) or []
            if has[: len(had)] != had:
                errors.append(invalid(f"{path}[{index}]", internal("NodeSelectorTerm", term),
                                      "only additions are allowed (no mutations or deletions)"
                                      ))  # fmt: skip
                break
    return errors


# -- status --------------------------------------------------------------------------------------


def validate_pod_status_update(new: Tree, old: Tree) -> list[FieldError]:
    """What is wrong with a status update of a pod."""
    status, was, spec = new["status"], old["status"], new["spec"]
    errors: list[FieldError] = []
    if status is was:
        return errors
    node = status.get("nominatedNodeName", "")
    if node and node != was.get("nominatedNodeName"):
        if spec.get("nodeName"):
            errors.append(forbidden("status.nominatedNodeName", (
                "may not be set on pods that are already bound to a node"
            )))  # fmt: skip
        errors += [
            invalid("status.nominatedNodeName", node, problem)
            for problem in names.dns_subdomain(node)
        ]
    if status.get("qosClass") != was.get("qosClass"):
        errors.append(invalid("status.qosClass", status.get("qosClass", ""),
                              "field is immutable"))  # fmt: skip
    for key in ("containerStatuses", "initContainerStatuses"):
        errors += _transitions(
            status.get(key) or [], was.get(key) or [], spec, f"status.{key}",
            init=key.startswith("init"),
        )  # fmt: skip
    return errors + _pod_ips(status.get("podIPs") or [], "status.podIPs")


def _transitions(
    new: list[Tree], old: list[Tree], spec: Tree, path: str, *, init: bool
) -> list[FieldError]:
    """A terminated container does not run again where nothing restarts it."""
    policy = spec.get("restartPolicy")
    if policy == "Always":
        return []
    restartable = {
        c.get("name")
        for c in spec.get("initContainers") or ()
        if c.get("restartPolicy") == "Always"
    }
    current = {status.get("name"): status for status in new}
    places: dict[Hashable, int] = {}
    errors: list[FieldError] = []
    for before in old:
        name = before.get("name")
        terminated = (before.get("state") or {}).get("terminated")
        if terminated is None or (init and name in restartable):
            continue
        if policy == "OnFailure" and terminated.get("exitCode", 0) != 0:
            continue
        now = current.get(name)
        if now is not None and (now.get("state") or {}).get("terminated") is None:
            places = places or first_by_value(new)
            errors.append(forbidden(f"{path}[{places[by_value(now)]}].state", (
                "may not be transitioned to non-terminated state"
            )))  # fmt: skip
    return errors


def _pod_ips(ips: list[Tree], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, entry in enumerate(ips):
        ip = entry.get("ip", "")
        errors += [invalid(f"{path}[{index}]", ip, problem) for problem in names.ip_problems(ip)]
    if errors or len(ips) < 2:
        return errors
    versions = [ipaddress.ip_address(entry["ip"]).version for entry in ips]
    if len(ips) > 2 or len(set(versions)) < len(versions):
        shown = [{"IP": entry.get("ip", "")} for entry in ips]
        errors.append(invalid(path, shown, "may specify no more than one IP for each IP family"))
    return errors


# -- ephemeral containers ------------------------------------------------------------------------


def validate_ephemeral_update(new: Tree, old: Tree) -> list[FieldError]:
    """Ephemeral containers may only be added."""
    errors = validate_whole_pod(new, old)
    path = "spec.ephemeralContainers"
    added = new["spec"].get("ephemeralContainers") or []
    before = old["spec"].get("ephemeralContainers") or []
    by_name = {container.get("name"): container for container in added}
    for container in before:
        name = container.get("name", "")
        if name not in by_name:
            errors.append(forbidden(path, f"existing ephemeral containers \"{name}\" may not be "
                                          "removed\n"))  # fmt: skip
        elif by_name[name] != container:
            errors.append(forbidden(path, f"existing ephemeral containers \"{name}\" may not be "
                                          "changed\n"))  # fmt: skip
    return errors
