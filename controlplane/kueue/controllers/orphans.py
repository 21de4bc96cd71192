"""The end of Workloads: finished, or without their finalizer. Follows `pkg/workload` and `pkg/workload/finish`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from controlplane.api.tree import Tree
from controlplane.kueue.controllers.effects import ApplyStatus, Effect, Update
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ADMISSION_MANAGER, IN_USE
from controlplane.kueue.workload.status import is_finished, working_copy
from controlplane.kueue.workload.status_evict import finish
from controlplane.kueue.workload.status_patch import admission_patch

__all__ = ["finalize_orphan", "finish_workload", "remove_finalizer"]

Ended = Generator[Effect, Any, Tree]


def finish_workload(workload: Tree, reason: str, message: str, now: int) -> Ended:
    """Set Finished=True unless it is; the Workload as stored."""
    if is_finished(workload):
        return workload
    copy = working_copy(workload)
    finish(copy, reason, message, now)
    stored: Tree = yield ApplyStatus("Workload", admission_patch(copy), ADMISSION_MANAGER)
    return stored


def remove_finalizer(workload: Tree) -> Ended:
    """Remove Kueue's finalizer; the Workload as stored."""
    metadata = workload["metadata"]
    finalizers = metadata.get("finalizers") or []
    if IN_USE not in finalizers:
        return workload
    kept = [each for each in finalizers if each != IN_USE]
    changed = {**workload, "metadata": {**metadata, "finalizers": kept}}
    return (yield Update("Workload", changed)) or changed


def finalize_orphan(workload: Tree, now: int, gates: Gates, *, can_finish: bool) -> Ended:
    """End a Workload whose job is gone: it is finished unless it is being deleted, and lets go."""
    deleting = workload["metadata"].get("deletionTimestamp")
    if can_finish and not deleting and gates.enabled("FinishOrphanedWorkloads"):
        text = "The workload's owner no longer exists"
        workload = yield from finish_workload(workload, "OwnerNotFound", text, now)
    return (yield from remove_finalizer(workload))
