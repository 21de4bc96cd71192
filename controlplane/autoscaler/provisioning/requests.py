"""Requests for capacity: which are supported and due, their pods, their conditions.

Upstream: `provisioningrequest/{supported_classes,conditions,pods,provreqwrapper}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from controlplane.api.pod import Pod
from controlplane.api.provisioning_requests import (
    ACCEPTED,
    ATOMIC,
    BOOKING_EXPIRED,
    CHECK_CAPACITY,
    CLASS_NAME,
    CONSUMES,
    FAILED,
    PROVISIONED,
    condition,
    is_true,
)
from controlplane.api.times import format_time, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.pods.defaults import default_pod
from controlplane.autoscaler.options import HOUR, MINUTE

_OLD_CONSUMES: Final = "cluster-autoscaler.kubernetes.io/consume-provisioning-request"
_INSTANCE: Final = "processorInstance"
NO_RETRY: Final = "noRetry"

NOT_FOUND: Final = "CapacityIsNotFound"
FOUND: Final = "CapacityIsFound"
FOUND_TEXT: Final = "Capacity is found in the cluster"
LATER: Final = "Capacity is not found, CA will try to find it later."

BOOKED_FOR: Final = 10 * MINUTE
EXPIRES_AFTER: Final = 7 * 24 * HOUR
KEPT_FOR: Final = 7 * 24 * HOUR

Templates = Callable[[str, str], Tree | None]
"""Finds a PodTemplate by namespace and name."""


class NoPods(Exception):
    """The pods of a request cannot be made; the text is upstream's."""


def supported(request: Tree) -> bool:
    """Return whether the class of a request is one of those that the autoscaler handles."""
    spec = request["spec"]
    if spec["provisioningClassName"] == CHECK_CAPACITY:
        return not (spec.get("parameters") or {}).get(_INSTANCE)
    return bool(spec["provisioningClassName"] == ATOMIC)


def since(found: Mapping[str, Any]) -> int:
    """Return when a condition changed."""
    return parse_time(found["lastTransitionTime"])


def is_booked(request: Tree) -> bool:
    """Return whether capacity is kept for a request."""
    over = is_true(request, FAILED) or is_true(request, BOOKING_EXPIRED)
    return supported(request) and is_true(request, PROVISIONED) and not over


def with_condition(
    request: Tree, kind: str, status: str, reason: str, message: str, now: int
) -> Tree:
    """Return a request with a condition set; its time is that of the change, even if it says the same."""
    made = {
        "type": kind,
        "status": status,
        "observedGeneration": request["metadata"].get("generation", 0),
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
    }
    old = request.get("status") or {}
    known = old.get("conditions") or []
    conditions = [made if each["type"] == kind else each for each in known]
    if condition(request, kind) is None:
        conditions = [*known, made]
    return {**request, "status": {**old, "conditions": conditions}}


def accepted(request: Tree, now: int) -> Tree:
    """Return a request that the autoscaler has taken."""
    text = "ProvisioningRequest is accepted by ClusterAutoscaler"
    return with_condition(request, ACCEPTED, "True", "Accepted", text, now)


def checked(request: Tree, now: int, *, found: bool) -> Tree:
    """Return a request of the class check-capacity with the answer."""
    if found:
        return with_condition(request, PROVISIONED, "True", FOUND, FOUND_TEXT, now)
    if (request["spec"].get("parameters") or {}).get(NO_RETRY) == "true":
        text = "CA could not find requested capacity"
        return with_condition(request, FAILED, "True", NOT_FOUND, text, now)
    return with_condition(request, PROVISIONED, "False", NOT_FOUND, LATER, now)


def consumed(pod: Pod) -> str:
    """Return the name of the request whose capacity a pod is for, or ""."""
    notes = pod.metadata.annotations
    return notes.get(CONSUMES) or notes.get(_OLD_CONSUMES, "")


def pods_of(request: Tree, templates: Templates) -> list[Pod]:
    """Return the pods that a request wants to be placed. Raises NoPods when a template is missing."""
    meta, spec = request["metadata"], request["spec"]
    names = [each["podTemplateRef"]["name"] for each in spec["podSets"]]
    found = [templates(meta["namespace"], name) for name in names]
    missing = [name for name, each in zip(names, found, strict=True) if each is None]
    if missing:
        raise NoPods(
            f"missing pod templates, {len(names)} pod templates were referenced,"
            f" {len(missing)} templates were missing: {','.join(missing)}"
        )
    return [
        _pod(request, (template or {}).get("template") or {}, f"{at}-{number}")
        for at, (pod_set, template) in enumerate(zip(spec["podSets"], found, strict=True))
        for number in range(pod_set["count"])
    ]


def _pod(request: Tree, template: Tree, suffix: str) -> Pod:
    meta, own = request["metadata"], template.get("metadata") or {}
    name = f"{meta['name']}-{suffix}"
    notes = {
        **(own.get("annotations") or {}),
        CONSUMES: meta["name"],
        CLASS_NAME: request["spec"]["provisioningClassName"],
    }
    owner = {
        "apiVersion": request["apiVersion"],
        "kind": request["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": meta["namespace"],
        "uid": f"{meta['namespace']}/{name}",
        "labels": dict(own.get("labels") or {}),
        "annotations": notes,
        "creationTimestamp": meta["creationTimestamp"],
        "ownerReferences": [owner],
    }
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }
    return Pod.from_tree(default_pod(tree))
