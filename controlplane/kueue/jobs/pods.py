"""Labels and annotations of single pods and of pods in groups. Follows `pkg/controller/jobs/pod/pod_controller.go`."""

from __future__ import annotations

import hashlib
from typing import Final

from controlplane.api.times import parse_time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kubelet.cm.go_text import GoTextError, atoi
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.objects import annotations_of, pod_group_name
from controlplane.kueue.names import (
    ADMISSION_GATE,
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED,
    RETRIABLE_IN_GROUP,
    ROLE_HASH,
)
from controlplane.kueue.workload.shape import go_text, spec_shape

__all__ = [
    "GroupError",
    "deleting",
    "group_total_count",
    "has_finalizer",
    "is_gated",
    "is_ready",
    "is_runnable",
    "is_terminated",
    "is_unretriable",
    "phase_of",
    "pod_suspended",
    "role_hash",
    "sort_active",
    "sort_inactive",
]

INDEX_LABEL: Final = "kueue.x-k8s.io/pod-group-pod-index"
ROLE_HASH_LENGTH: Final = 8


class GroupError(Exception):
    """The number of pods of a group cannot be read."""


def phase_of(pod: Tree) -> str:
    """The phase, empty when there is none yet."""
    phase: str = (pod.get("status") or EMPTY_MAP).get("phase", "")
    return phase


def is_terminated(pod: Tree) -> bool:
    """Return whether the pod has run."""
    return phase_of(pod) in {"Failed", "Succeeded"}


def is_gated(pod: Tree) -> bool:
    """Return whether Kueue holds the pod back."""
    gates = (pod.get("spec") or EMPTY_MAP).get("schedulingGates") or ()
    return any(each["name"] == ADMISSION_GATE for each in gates)


def pod_suspended(pod: Tree) -> bool:
    """Return whether the pod does not run: held back, or ended."""
    return is_terminated(pod) or is_gated(pod)


def deleting(pod: Tree) -> bool:
    """Return whether the pod is being deleted."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_unretriable(pod: Tree) -> bool:
    """Return whether a failed pod makes its group fail."""
    return annotations_of(pod).get(RETRIABLE_IN_GROUP) == "false"


def is_runnable(pod: Tree) -> bool:
    """Return whether the pod can run, runs or succeeded; one deleted before it was bound cannot."""
    if deleting(pod) and not (pod.get("spec") or EMPTY_MAP).get("nodeName"):
        return False
    return phase_of(pod) != "Failed"


def is_ready(pod: Tree) -> bool:
    """Return whether the condition Ready is True."""
    for each in (pod.get("status") or EMPTY_MAP).get("conditions") or ():
        if each["type"] == "Ready":
            return bool(each["status"] == "True")
    return False


def has_finalizer(pod: Tree) -> bool:
    """Return whether Kueue still holds the object."""
    return MANAGED in (pod["metadata"].get("finalizers") or ())


def group_total_count(pod: Tree, gates: Gates) -> int:
    """The number of pods of the pod's group.

    Raises:
        GroupError: There is no group or no valid count.
    """
    if not pod_group_name(pod, gates):
        either = gates.enabled("WorkloadIdentifierAnnotations")
        what = "annotation/label" if either else "label"
        raise GroupError(f"pod doesn't have a '{GROUP_NAME}' {what}")
    text = annotations_of(pod).get(GROUP_TOTAL_COUNT)
    if text is None:
        raise GroupError(f"failed to extract '{GROUP_TOTAL_COUNT}' annotation")
    try:
        count = atoi(text)
    except GoTextError as error:
        raise GroupError(str(error)) from None
    if count < 1:
        said = f"incorrect annotation value '{GROUP_TOTAL_COUNT}={text}'"
        raise GroupError(f"{said}: group total count should be greater than zero")
    return count


def _created(pod: Tree) -> int:
    text = pod["metadata"].get("creationTimestamp")
    return parse_time(text) if text else 0


def sort_active(pods: list[Tree]) -> list[Tree]:
    """Pods that can run, those to keep first: with finalizer, not held back, older."""
    return sorted(pods, key=lambda pod: (not has_finalizer(pod), is_gated(pod), _created(pod)))


def sort_inactive(pods: list[Tree], now: int) -> list[Tree]:
    """Pods that cannot run, those to keep first: with finalizer, active until later, older."""
    return sorted(
        pods, key=lambda pod: (not has_finalizer(pod), -_last_active(pod, now), _created(pod))
    )


def _last_active(pod: Tree, now: int) -> int:
    """When the pod was seen active last: until it failed or was deleted."""
    failed = now
    for each in (pod.get("status") or EMPTY_MAP).get("conditions") or ():
        if each["type"] == "ContainersReady":
            if each["status"] == "False" and each.get("reason") == "Failed":
                text = each.get("lastTransitionTime")
                failed = parse_time(text) if text else 0
            break
    text = pod["metadata"].get("deletionTimestamp")
    return min(failed, parse_time(text) if text else now)


def role_hash(pod: Tree) -> str:
    """The hash of what admission needs to know of a pod; an annotation of that name is taken as it is."""
    found = annotations_of(pod).get(ROLE_HASH)
    if found is not None:
        return str(found)
    text = go_text({"spec": spec_shape(pod.get("spec") or EMPTY_MAP)})
    return hashlib.sha256(text.encode()).hexdigest()[:ROLE_HASH_LENGTH]
