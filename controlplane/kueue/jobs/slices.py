"""Workload slices of elastic jobs: a job that grows gets a further Workload, which takes the place of the one before.

While the new slice waits for quota, the old one keeps what it has. Follows `pkg/workloadslicing` and
`prepareWorkloadSlice` of `pkg/controller/jobframework/reconciler.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.controllers.effects import Reader, ReconcileError, Update
from controlplane.kueue.controllers.orphans import finish_workload
from controlplane.kueue.jobs.kinds import Steps
from controlplane.kueue.jobs.objects import Kind, annotations_of
from controlplane.kueue.names import ELASTIC_JOB
from controlplane.kueue.placement.pods import SLICE_NAME, slice_name
from controlplane.kueue.scheduler.assignments import SLICE_REPLACEMENT
from controlplane.kueue.workload import status

__all__ = [
    "ensure_slices",
    "is_replacement",
    "latest_active",
    "owned_slices",
    "prepared",
]

REPLACED: Final = ("WorkloadSliceReplaced", "Replaced to accommodate a new workload slice")
OUT_OF_SYNC: Final = ("OutOfSync", "The workload slice is out of sync with its parent job")
Counts = Mapping[str, int]


def is_replacement(workload: Tree) -> bool:
    """Return whether a Workload takes the place of another one, as its job has grown."""
    return SLICE_REPLACEMENT in annotations_of(workload)


def owned_slices(reader: Reader, kind: Kind, namespace: str, name: str) -> list[Tree]:
    """The Workloads of a job that have not finished, the oldest first."""
    found = [
        each
        for each in reader.list("Workload", namespace)
        if not status.is_finished(each)
        and any(
            (owner["apiVersion"], owner["kind"], owner["name"])
            == (kind.api_version, kind.kind, name)
            for owner in each["metadata"].get("ownerReferences") or ()
        )
    ]
    return sorted(
        found, key=lambda each: (status.created_at(each), each["metadata"].get("uid", ""))
    )


def latest_active(slices: Sequence[Tree]) -> Tree | None:
    """The newest slice that has quota and is not evicted: it tells how many pods may run."""
    for each in reversed(slices):
        if status.has_quota_reservation(each) and not status.is_evicted(each):
            return each
    return None


def counts_of(pod_sets: Sequence[Tree]) -> dict[str, int]:
    """The number of pods by pod set."""
    return {each["name"]: each.get("count") or 0 for each in pod_sets}


def scaled_down(old: Counts, new: Counts) -> bool:
    """Return whether some pod set has fewer pods and none has more."""
    fewer = any(new.get(name, count) < count for name, count in old.items())
    return fewer and not any(old.get(name, count) < count for name, count in new.items())


def ensure_slices(
    slices: Sequence[Tree], pod_sets: Sequence[Tree], clock: Callable[[], int]
) -> Steps:
    """The slice that stands for the job as it is, None if a new one is to be made; and whether slices will do.

    They will not where other parts of the job changed than its numbers of pods.
    """
    wanted = counts_of(pod_sets)
    chosen = slices[0] if len(slices) == 1 else None
    if len(slices) > 1:
        chosen = yield from _one_chosen(slices, clock)
    if chosen is None:
        return None, True
    found = counts_of(chosen["spec"]["podSets"])
    if found.keys() != wanted.keys():
        return None, False
    if found == wanted:
        return chosen, True
    if status.has_quota_reservation(chosen) and not scaled_down(found, wanted):
        return None, True
    sets = [{**each, "count": wanted[each["name"]]} for each in chosen["spec"]["podSets"]]
    return (yield Update("Workload", {**chosen, "spec": {**chosen["spec"], "podSets": sets}})), True


def _one_chosen(slices: Sequence[Tree], clock: Callable[[], int]) -> Steps:
    """Leave the slice with quota and its direct replacement, and finish all others; the newer one of the two."""
    going_on = [each for each in slices if not status.is_evicted(each)]
    replacements: dict[str, Tree] = {}
    for each in going_on:
        replaced = annotations_of(each).get(SLICE_REPLACEMENT)
        if replaced is None:
            continue
        known = replacements.get(replaced)
        if known is None or (
            status.has_quota_reservation(each) and not status.has_quota_reservation(known)
        ):
            replacements[replaced] = each
    reserved: Tree | None = None
    for each in going_on:
        after = replacements.get(status.key_of(each))
        replaced_already = after is not None and status.has_quota_reservation(after)
        if status.has_quota_reservation(each) and not replaced_already:
            reserved = each
    pending = None if reserved is None else replacements.get(status.key_of(reserved))
    chosen = pending or reserved or (going_on[-1] if going_on else None)
    for each in slices:
        if each is not chosen and each is not reserved:
            reason, text = REPLACED if status.key_of(each) in replacements else OUT_OF_SYNC
            yield from finish_workload(each, reason, text, clock())
    return chosen


def prepared(workload: Tree, slices: Sequence[Tree]) -> Tree:
    """A new Workload of an elastic job as a slice: with the one that it replaces, and the name of the first one.

    Raises:
        ReconcileError: The job has several slices already.
    """
    if len(slices) > 1:
        raise ReconcileError(f"unexpected workload-slices count: {len(slices)}")
    annotations = {**annotations_of(workload), ELASTIC_JOB: "true"}
    if slices:
        annotations[SLICE_REPLACEMENT] = status.key_of(slices[0])
        annotations[SLICE_NAME] = slice_name(slices[0])
    else:
        annotations[SLICE_NAME] = workload["metadata"]["name"]
    return {**workload, "metadata": {**workload["metadata"], "annotations": annotations}}
