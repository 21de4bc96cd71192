"""Patches of a pod's status, as controllers send them. Upstream: pkg/util/pod/pod.go (PatchPodStatus)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.times import format_time
from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.client.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.pod import Pod
    from controlplane.controllers.common.effects import Reconcile

FINISHED = ("Succeeded", "Failed")


def with_condition(
    conditions: Sequence[Tree], kind: str, status: str, reason: str, message: str, **more: Any
) -> list[Tree]:
    """Conditions with one set; `now` and `generation` are given in `more`.

    The transition time changes only with the status.
    """
    made: Tree = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": format_time(more["now"]),
        "reason": reason,
        "message": message,
    }
    if more.get("generation"):
        made["observedGeneration"] = more["generation"]
    found = list(conditions)
    for number, old in enumerate(found):
        if old["type"] != kind:
            continue
        if old["status"] == status:
            made.pop("lastTransitionTime")
            if "lastTransitionTime" in old:
                made["lastTransitionTime"] = old["lastTransitionTime"]
        found[number] = made
        return found
    return [*found, made]


def status_patch(pod: Pod, status: Tree) -> Tree | None:
    """The strategic merge patch from the pod's status to `status`; None if there is nothing to write.

    Both are whole status trees; only conditions, phase and observedGeneration may differ.
    """
    old: Tree = pod.tree.get("status") or {}
    patch: Tree = {
        name: status[name]
        for name in ("phase", "observedGeneration")
        if name in status and status[name] != old.get(name)
    }
    conditions = _conditions_patch(old.get("conditions") or (), status.get("conditions") or ())
    if not patch and not conditions:
        return None
    return {"metadata": {"uid": pod.uid}, "status": {**patch, **conditions}}


def _conditions_patch(old: Sequence[Tree], new: Sequence[Tree]) -> Tree:
    known = {each["type"]: each for each in old}
    changed: list[Tree] = []
    for condition in new:
        before = known.get(condition["type"])
        if before is None:
            changed.append(condition)
            continue
        parts = {name: value for name, value in condition.items() if before.get(name) != value}
        parts.update({name: None for name in before if name not in condition})
        if parts:
            changed.append({**parts, "type": condition["type"]})
    if not changed:
        return {}
    if not old:
        return {"conditions": changed}
    order = [{"type": each["type"]} for each in new]
    return {"$setElementOrder/conditions": order, "conditions": changed}


BY_UID = "141568"
"""The fix gate of deletions that name the pod's uid, and not only its name."""


def fail_and_delete(
    pod: Pod, now: int, reason: str = "", message: str = "", *, by_uid: bool = False
) -> Reconcile[None]:
    """Mark a pod as Failed unless it is finished, with condition DisruptionTarget if a reason is given; delete it.

    The deletion is at once, and by name: a new pod of the name goes, too, unless `by_uid`.
    """
    if pod.status.phase not in FINISHED:
        generation = pod.metadata.generation
        status: Tree = {**(pod.tree.get("status") or {}), "phase": "Failed"}
        if generation:
            status["observedGeneration"] = generation
        if reason:
            status["conditions"] = with_condition(
                status.get("conditions") or (),
                "DisruptionTarget", "True", reason, message, now=now, generation=generation,
            )  # fmt: skip
        patch = status_patch(pod, status)
        if patch is not None:
            yield from calls.patch(PODS, pod.namespace, pod.name, patch, subresource="status")
    options = calls.delete_options(grace_period_seconds=0, uid=pod.uid if by_uid else "")
    yield from calls.delete(PODS, pod.namespace, pod.name, options)
