"""Workloads of jobs: how one is made, which belongs to a job, and its priority.

Follows `pkg/controller/jobframework/reconciler.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from attrs import define

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.validation import label_value_errors
from controlplane.kueue.controllers.effects import (
    Emit,
    MergePatch,
    Reader,
    ReconcileError,
    Update,
)
from controlplane.kueue.jobs.ancestors import Surroundings, controller_of
from controlplane.kueue.jobs.kinds import ManagedJob, Steps
from controlplane.kueue.jobs.objects import (
    annotations_of,
    is_elastic,
    max_execution_time,
    priority_class,
    queue_name,
    workload_name,
)
from controlplane.kueue.jobs.pod_sets import (
    Info,
    PermanentError,
    infos_from_status,
    merge_into,
    same_pod_sets,
)
from controlplane.kueue.jobs.slices import owned_slices, prepared
from controlplane.kueue.names import (
    ADMISSION_GATED_BY,
    IN_USE,
    JOB_UID,
    PROVISIONING_REQUEST_PREFIX,
)
from controlplane.kueue.workload.status import has_quota_reservation, is_admitted, key_of

__all__ = [
    "WORKLOAD",
    "ObjectJob",
    "construct",
    "first_equivalent",
    "is_equivalent",
    "new_workload",
    "owned_by",
    "own_prebuilt",
    "prepare",
    "slices_of",
    "update_gated_by",
    "update_priority",
]

WORKLOAD: Final = "Workload"
WORKLOAD_CLASS: Final = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass"}
POD_CLASS: Final = {"group": "scheduling.k8s.io", "kind": "PriorityClass"}


def owned_by(reader: Reader, job: ManagedJob) -> list[Tree]:
    """The Workloads with an owner of the job's kind and name."""
    return [
        each
        for each in reader.list(WORKLOAD, job.namespace)
        if any(
            owner["kind"] == job.kind.kind
            and owner["apiVersion"] == job.kind.api_version
            and owner["name"] == job.name
            for owner in each["metadata"].get("ownerReferences") or ()
        )
    ]


def slices_of(job: ManagedJob) -> list[Tree]:
    """The Workloads of a job that have not finished, the oldest first."""
    return owned_slices(job.around.reader, job.kind, job.namespace, job.name)


def new_workload(name: str, job: Tree, pod_sets: list[Tree]) -> Tree:
    """A Workload of a job without an owner yet."""
    annotations = {
        key: value
        for key, value in annotations_of(job).items()
        if key.startswith(PROVISIONING_REQUEST_PREFIX)
    }
    metadata: Tree = {"name": name, "namespace": job["metadata"].get("namespace", "")}
    metadata |= {"labels": {}, "finalizers": [IN_USE], "annotations": annotations}
    spec: Tree = {"podSets": pod_sets}
    if queue := queue_name(job):
        spec["queueName"] = queue
    if (limit := max_execution_time(job)) is not None:
        spec["maximumExecutionTimeSeconds"] = limit
    return {"metadata": metadata, "spec": spec}


def _owner(job: ManagedJob, *, controller: bool) -> Tree:
    owner: Tree = {
        "apiVersion": job.kind.api_version,
        "kind": job.kind.kind,
        "name": job.name,
        "uid": job.uid,
    }
    if controller:
        owner |= {"controller": True, "blockOwnerDeletion": True}
    return owner


def _with_job_uid(metadata: Tree, uid: str) -> Tree:
    if label_value_errors(uid):
        return metadata
    return {**metadata, "labels": {**(metadata.get("labels") or {}), JOB_UID: uid}}


def construct(job: ManagedJob) -> Tree:
    """The Workload of a job, controlled by it; each slice of an elastic job has a name of its own."""
    elastic = is_elastic(job.tree, job.around.gates)
    generation = str(job.tree["metadata"].get("generation") or 0) if elastic else ""
    name = workload_name(job.kind, job.name, job.uid, job.around.gates, generation)
    made = new_workload(name, job.tree, job.pod_sets())
    metadata = _with_job_uid(made["metadata"], job.uid)
    owners = [_owner(job, controller=True)]
    return {**made, "metadata": {**metadata, "ownerReferences": owners}}


def prepare(job: ManagedJob, workload: Tree, active: bool | None) -> Steps:
    """The Workload with priority and admission gates; ends with the finished tree.

    Raises:
        ReconcileError: A priority class does not exist.
    """
    gates = job.around.gates
    if is_elastic(job.tree, gates):
        workload = prepared(workload, slices_of(job))
    if gates.enabled("AdmissionGatedBy"):
        workload, _ = with_gated_by(workload, job.tree)
    reference, priority = yield from _priority(job, workload["spec"]["podSets"])
    spec = {**workload["spec"], "priority": priority}
    if reference is not None:
        spec["priorityClassRef"] = reference
    if not gates.enabled("PartialAdmission"):
        spec["podSets"] = [
            {name: value for name, value in each.items() if name != "minCount"}
            for each in spec["podSets"]
        ]
    if active is not None:
        spec["active"] = active
    return {**workload, "spec": spec}


def with_gated_by(workload: Tree, job: Tree) -> tuple[Tree, bool]:
    """The Workload with the gates of the job, and whether they were others."""
    wanted = annotations_of(job).get(ADMISSION_GATED_BY, "")
    annotations = dict(annotations_of(workload))
    if wanted == annotations.get(ADMISSION_GATED_BY, ""):
        return workload, False
    if wanted:
        annotations[ADMISSION_GATED_BY] = wanted
    else:
        del annotations[ADMISSION_GATED_BY]
    return {**workload, "metadata": {**workload["metadata"], "annotations": annotations}}, True


# -- priority --------------------------------------------------------------------------------------


def _priority(job: ManagedJob, pod_sets: Sequence[Tree]) -> Steps:
    """Reference and value: of the label's class, the job's own, its pods', or the default one."""
    reader = job.around.reader
    if name := priority_class(job.tree):
        found = reader.get("WorkloadPriorityClass", "", name)
        if found is None:
            reason = "WorkloadPriorityClassNotFound"
            text = f'WorkloadPriorityClass "{name}" not found'
            yield Emit(job.kind.kind, job.tree, "Warning", reason, text)
            raise ReconcileError(f'workloadpriorityclasses.kueue.x-k8s.io "{name}" not found')
        return {**WORKLOAD_CLASS, "name": name}, found.get("value") or 0
    own = job.priority_class()
    if own is None:
        own = next(
            (
                spec["priorityClassName"]
                for each in pod_sets
                if (spec := each["template"].get("spec") or EMPTY_MAP).get("priorityClassName")
            ),
            "",
        )
    if not own:
        return _default_priority(reader)
    found = reader.get("PriorityClass", "", own)
    if found is None:
        raise ReconcileError(f'priorityclasses.scheduling.k8s.io "{own}" not found')
    return {**POD_CLASS, "name": own}, found.get("value") or 0


def _default_priority(reader: Reader) -> tuple[Tree | None, int]:
    """The global default with the lowest value; 0 without one."""
    defaults = [each for each in reader.list("PriorityClass") if each.get("globalDefault")]
    if not defaults:
        return None, 0
    lowest = min(defaults, key=lambda each: int(each.get("value") or 0))
    return {**POD_CLASS, "name": lowest["metadata"]["name"]}, lowest.get("value") or 0


def update_priority(job: ManagedJob, workload: Tree) -> Steps:
    """Follow a changed label of the priority class; the Workload as stored."""
    reference = workload["spec"].get("priorityClassRef")
    if reference is None:
        if has_quota_reservation(workload):
            return workload
    elif any(reference.get(name) != value for name, value in WORKLOAD_CLASS.items()):
        return workload
    if (reference or EMPTY_MAP).get("name", "") == priority_class(job.tree):
        return workload
    try:
        wanted, priority = yield from _priority(job, workload["spec"]["podSets"])
    except ReconcileError as error:
        raise ReconcileError(f"prepare workload priority: {error}") from None
    if workload["spec"].get("priority") == priority and reference == wanted:
        return workload
    spec = {**workload["spec"], "priority": priority}
    spec.pop("priorityClassRef", None)
    if wanted is not None:
        spec["priorityClassRef"] = wanted
    workload = yield Update(WORKLOAD, {**workload, "spec": spec})
    text = f"Updated workload priority class: {key_of(workload)}"
    yield Emit(job.kind.kind, job.tree, "Normal", "UpdatedWorkload", text)
    return workload


def update_gated_by(job: ManagedJob, workload: Tree) -> Steps:
    """Follow a changed annotation `admission-gated-by`; the Workload as stored."""
    if not job.around.gates.enabled("AdmissionGatedBy"):
        return workload
    new, changed = with_gated_by(workload, job.tree)
    if not changed:
        return workload
    workload = yield MergePatch(WORKLOAD, workload, new)
    value = annotations_of(job.tree).get(ADMISSION_GATED_BY, "")
    text = f'Updated workload AdmissionGatedBy to "{value}"'
    yield Emit(job.kind.kind, job.tree, "Normal", "UpdatedWorkload", text)
    return workload


# -- which Workload is the job's -------------------------------------------------------------------


def _running_pod_sets(workload: Tree, around: Surroundings) -> list[Tree] | None:
    """The pod sets as they look while the job runs, None without a matching reservation."""
    if not has_quota_reservation(workload):
        return None
    spec_sets = workload["spec"].get("podSets") or []
    try:
        infos = {
            info.name: info for info in infos_from_status(workload, around.reader, around.gates)
        }
        running = []
        for each in spec_sets:
            info = infos.get(each["name"])
            if info is None:
                return None
            template = merge_into(each["template"], info, around.gates)
            merged = {**each, "template": template}
            if each.get("minCount") is not None and around.gates.enabled("PartialAdmission"):
                merged["count"] = info.count
            running.append(merged)
    except (ReconcileError, PermanentError):
        return None
    return running


def is_equivalent(job: ManagedJob, workload: Tree) -> bool:
    """Return whether a Workload is that of the job as it is now."""
    around = job.around
    owner = controller_of(workload)
    if owner is None or owner["name"] != job.name:
        return False
    if around.gates.enabled("FinishOrphanedWorkloads") and owner.get("uid", "") != job.uid:
        return False
    limit = workload["spec"].get("maximumExecutionTimeSeconds")
    if limit != max_execution_time(job.tree):
        return False
    ours = job.pod_sets()
    if not around.gates.enabled("PartialAdmission"):
        ours = [{k: v for k, v in each.items() if k != "minCount"} for each in ours]
    with_tolerations = not is_admitted(workload)
    spec_sets = workload["spec"].get("podSets") or []
    running = _running_pod_sets(workload, around)
    if running is not None:
        if same_pod_sets(ours, running, tolerations=with_tolerations):
            return True
        return job.is_suspended() and same_pod_sets(ours, spec_sets, tolerations=with_tolerations)
    return same_pod_sets(ours, spec_sets, tolerations=with_tolerations)


def own_prebuilt(job: ManagedJob, workload: Tree) -> Steps:
    """Make the job the controller of a Workload that a user made."""
    owner = controller_of(workload)
    if owner is not None and owner.get("uid", "") == job.uid:
        return workload
    metadata = _with_job_uid(workload["metadata"], job.uid)
    owners = [*(metadata.get("ownerReferences") or ()), _owner(job, controller=True)]
    return (
        yield Update(WORKLOAD, {**workload, "metadata": {**metadata, "ownerReferences": owners}})
    )


def with_owner(workload: Tree, job: ManagedJob, pod: Tree) -> Tree:
    """A Workload with a pod among its owners; an owner of that name is replaced."""
    metadata = workload["metadata"]
    new = {
        "apiVersion": job.kind.api_version,
        "kind": job.kind.kind,
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"].get("uid", ""),
    }
    owners = list(metadata.get("ownerReferences") or ())
    for index, each in enumerate(owners):
        if (each["kind"], each["name"]) == (new["kind"], new["name"]):
            owners[index] = new
            break
    else:
        owners.append(new)
    return {**workload, "metadata": {**metadata, "ownerReferences": owners}}


def first_equivalent(job: ManagedJob, workloads: Sequence[Tree]) -> tuple[Tree | None, list[Tree]]:
    """Return the first Workload that is equivalent to the job, and all others."""
    match: Tree | None = None
    others: list[Tree] = []
    for each in workloads:
        if match is None and is_equivalent(job, each):
            match = each
        else:
            others.append(each)
    return match, others


@define
class ObjectJob(ManagedJob):
    """A job that is one object, which controls one Workload."""

    def load(self, namespace: str, name: str) -> bool:
        """Read the object."""
        found = self.around.reader.get(self.kind.kind, namespace, name)
        self.tree = found or {"metadata": {"namespace": namespace, "name": name}}
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    def child_workloads(self) -> list[Tree]:
        """The Workloads that an object of this kind and name owns."""
        return owned_by(self.around.reader, self)

    def find_matching(self) -> Steps:
        """The first equivalent Workload; all others are to be deleted."""
        return first_equivalent(self, self.child_workloads())
        yield

    def constructed(self) -> Steps:
        """See `construct`."""
        return construct(self)
        yield

    def own(self, workload: Tree) -> Steps:
        """See `own_prebuilt`."""
        return (yield from own_prebuilt(self, workload))

    def is_equivalent(self, workload: Tree) -> bool:
        """See `is_equivalent`."""
        return is_equivalent(self, workload)

    def run(self, infos: Sequence[Info], message: str) -> Steps:
        """Start the job with one request."""
        new = self.started(self.tree, infos)
        self.tree = yield MergePatch(self.kind.kind, self.tree, new)
        yield Emit(self.kind.kind, self.tree, "Normal", "Started", message)
