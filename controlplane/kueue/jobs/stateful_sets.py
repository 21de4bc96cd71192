"""StatefulSets: their pods are one group, whose Workload is made from the StatefulSet and kept on hold at zero.

Follows `pkg/controller/jobs/statefulset`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from attrs import define, field, frozen

from controlplane.api.tree import Tree
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.kueue.controllers.effects import (
    Create,
    Done,
    Emit,
    MergePatch,
    Reconcile,
    Update,
)
from controlplane.kueue.controllers.observer import SILENT, Observer
from controlplane.kueue.jobs.ancestors import (
    STATEFUL_SET,
    AncestorError,
    Surroundings,
    controller_of,
)
from controlplane.kueue.jobs.kinds import Steps
from controlplane.kueue.jobs.objects import (
    annotations_of,
    labels_of,
    pod_group_name,
    priority_class,
    queue_name,
    workload_name,
)
from controlplane.kueue.jobs.pod_sets import pod_set, topology_request
from controlplane.kueue.jobs.pods import deleting, is_terminated
from controlplane.kueue.jobs.workloads import (
    WORKLOAD,
    ObjectJob,
    new_workload,
    prepare,
    with_gated_by,
    with_owner,
)
from controlplane.kueue.names import (
    ADMISSION_GATE,
    ADMISSION_GATED_BY,
    GROUP_FAST_ADMISSION,
    GROUP_NAME,
    GROUP_SERVING,
    GROUP_TOTAL_COUNT,
    IS_GROUP_WORKLOAD,
    JOB_OWNER_GVK,
    JOB_OWNER_NAME,
    JOB_UID,
    MANAGED,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE,
    ROLE_HASH,
    SUSPENDED_BY_PARENT,
    TOPOLOGY_GATE,
)
from controlplane.kueue.workload import status

__all__ = [
    "FRAMEWORK",
    "StatefulSetController",
    "find_workload",
    "of_another_framework",
    "owner_of_pod",
    "replicas_of",
]

FRAMEWORK: Final = "statefulset"
KIND: Final = STATEFUL_SET.kind
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
POD_INDEX_LABEL_ANNOTATION: Final = "kueue.x-k8s.io/pod-group-pod-index-label"
REVISION: Final = "controller-revision-hash"
MAIN: Final = "main"
ON_HOLD: Final = "OnHold"


def replicas_of(tree: Tree) -> int:
    """The number of pods that a StatefulSet asks for."""
    found = tree["spec"].get("replicas")
    return 1 if found is None else int(found)


def of_another_framework(tree: Tree) -> bool:
    """Return whether the pods of a StatefulSet are held back by another kind of object."""
    found = annotations_of(tree["spec"].get("template") or {}).get(SUSPENDED_BY_PARENT)
    return found is not None and found != FRAMEWORK


def owner_of_pod(pod: Tree) -> str:
    """The name of the StatefulSet that holds a pod back, empty when none does."""
    owner = controller_of(pod)
    if owner is None or annotations_of(pod).get(SUSPENDED_BY_PARENT) != FRAMEWORK:
        return ""
    same = (owner["kind"], owner["apiVersion"]) == (KIND, STATEFUL_SET.api_version)
    return str(owner["name"]) if same else ""


def find_workload(tree: Tree, around: Surroundings) -> tuple[str, Tree | None]:
    """Name and tree of the Workload; one with the name of earlier releases, without uid, is used too."""
    meta = tree["metadata"]
    name = ""
    for uid in (meta.get("uid", ""), ""):
        called = workload_name(STATEFUL_SET, meta["name"], uid, around.gates)
        found = around.reader.get(WORKLOAD, meta.get("namespace", ""), called)
        name = name or called
        if found is not None:
            return called, found
    return name, None


@define
class _StatefulSetJob(ObjectJob):
    """As far as the making of Workloads needs to know it."""

    kind = STATEFUL_SET


@frozen
class StatefulSetController:
    """Reconciles StatefulSets and their pods.

    Args:
        around: Surroundings.
        clock: Current time in nanoseconds.
        observer: Metrics.
    """

    around: Surroundings
    clock: Callable[[], int]
    observer: Observer = field(default=SILENT)

    def is_managed(self, tree: Tree) -> bool:
        """Return whether changes of a StatefulSet lead to a reconcile."""
        if of_another_framework(tree):
            return False
        try:
            return self.around.should_be_suspended(tree)
        except AncestorError:
            return False

    # -- StatefulSets ------------------------------------------------------------------------------

    def reconcile(self, namespace: str, name: str) -> Reconcile:
        """Bring pods and Workload of a StatefulSet in step with it."""
        tree = self.around.reader.get(KIND, namespace, name)
        if tree is None:
            return Done()
        called, workload = find_workload(tree, self.around)
        pods = [
            each
            for each in self.around.reader.list("Pod", namespace)
            if pod_group_name(each, self.around.gates) == called
        ]
        for pod in pods:
            yield from self._sync_pod(tree, pod)
        if workload is None:
            yield from self._create(tree, called)
        else:
            yield from self._sync_workload(tree, workload)
        return Done()

    def _sync_pod(self, tree: Tree, pod: Tree) -> Steps:
        """The pod with the queue of its StatefulSet; pods of the old revision run in an update."""
        new, queue = pod, queue_name(tree)
        if replicas_of(tree) and queue and queue_name(pod) != queue:
            new = yield from _patched(pod, _labelled(pod, **{QUEUE: queue}))
        if new is not None and _is_of_old_revision(tree, new):
            yield from _patched(new, _ungated(new))

    def _create(self, tree: Tree, name: str) -> Steps:
        if not replicas_of(tree):
            return
        if not queue_name(tree) and not self.around.manage_without_queue:
            return
        job = _StatefulSetJob(self.around, self.clock(), tree)
        workload = yield from prepare(job, self._constructed(job, name), None)
        try:
            stored = yield Create(WORKLOAD, workload)
        except ApiError as error:
            if is_already_exists(error):
                return
            raise
        text = f"Created Workload: {job.namespace}/{name}"
        yield Emit(KIND, tree, "Normal", "CreatedWorkload", text)
        self.observer.workload_created(tree, KIND, stored)

    def _constructed(self, job: _StatefulSetJob, name: str) -> Tree:
        gates, template = self.around.gates, job.tree["spec"]["template"]
        topology = topology_request(annotations_of(template), gates, POD_INDEX)
        pods = pod_set(MAIN, {"spec": template["spec"]}, replicas_of(job.tree), topology)
        made = _described(new_workload(name, job.tree, [pods]), job.tree)
        metadata = made["metadata"]
        metadata["labels"] = {**metadata["labels"], JOB_UID: job.uid}
        metadata["annotations"] |= {IS_GROUP_WORKLOAD: "true"}
        return with_owner(made, job, job.tree)

    def _sync_workload(self, tree: Tree, workload: Tree) -> Steps:
        replicas, queue = replicas_of(tree), queue_name(tree)
        new, now = workload, self.clock()
        active = status.is_active(workload) and not status.is_finished(workload)
        release = not replicas and active and status.active_quota_reservation(workload)
        wake = bool(replicas) and status.is_on_hold(workload)
        owned = any(
            owner["kind"] == KIND and owner.get("uid") == tree["metadata"].get("uid")
            for owner in workload["metadata"].get("ownerReferences") or ()
        )
        if replicas and not owned:
            job = _StatefulSetJob(self.around, now, tree)
            new = with_owner(_described(new, tree), job, tree)
        if replicas and (new["spec"].get("queueName") or "") != queue:
            new = {**new, "spec": {**new["spec"], "queueName": queue}}
        gated = False
        if self.around.gates.enabled("AdmissionGatedBy"):
            new, gated = with_gated_by(new, tree)
        if new is not workload:
            new = yield Update(WORKLOAD, new)
        if gated:
            value = annotations_of(tree).get(ADMISSION_GATED_BY, "")
            text = f'Updated workload AdmissionGatedBy to "{value}"'
            yield Emit(KIND, tree, "Normal", "UpdatedWorkload", text)
        if release:
            text = "StatefulSet scaled to zero; workload on hold"
            yield from self._without_quota(new, ON_HOLD, text)
        elif wake:
            observed = self.around.gates.enabled("UnadmittedWorkloadsObservability")
            reason = "PendingEvaluation" if observed else "Pending"
            text = "Workload no longer on hold; waiting for quota reservation"
            yield from self._without_quota(new, reason, text)

    def _without_quota(self, workload: Tree, reason: str, text: str) -> Steps:
        new = status.working_copy(workload)
        if status.unset_quota_reservation(new, reason, text, self.clock(), self.around.gates):
            yield MergePatch(WORKLOAD, workload, new, "status")

    # -- pods --------------------------------------------------------------------------------------

    def reconcile_pod(self, namespace: str, name: str) -> Reconcile:
        """Make a pod of a StatefulSet a member of the group."""
        reader = self.around.reader
        pod = reader.get("Pod", namespace, name)
        if pod is None or is_terminated(pod) or deleting(pod):
            return Done()
        owner = owner_of_pod(pod)
        tree = reader.get(KIND, namespace, owner) if owner else None
        if tree is not None:
            yield from _patched(pod, self._member(pod, tree))
        return Done()

    def _member(self, pod: Tree, tree: Tree) -> Tree:
        gates, queue = self.around.gates, queue_name(tree)
        group, _ = find_workload(tree, self.around)
        if pod_group_name(pod, gates) == group:
            return _labelled(pod, **({QUEUE: queue} if queue else {}))
        if not queue and not self.around.manage_without_queue:
            return pod
        labels = {MANAGED: "true"}
        if queue:
            labels[QUEUE] = queue
        if name := priority_class(tree):
            labels[PRIORITY_CLASS] = name
        annotations = {
            GROUP_TOTAL_COUNT: str(replicas_of(tree)),
            GROUP_FAST_ADMISSION: "true",
            GROUP_SERVING: "true",
            POD_INDEX_LABEL_ANNOTATION: POD_INDEX,
            ROLE_HASH: MAIN,
        }
        by_annotation = gates.enabled("WorkloadIdentifierAnnotations")
        named = annotations if by_annotation else labels
        named |= {PREBUILT_WORKLOAD: group, GROUP_NAME: group}
        return _annotated(_labelled(pod, **labels), **annotations)


def _described(workload: Tree, tree: Tree) -> Tree:
    annotations = {
        **annotations_of(workload),
        JOB_OWNER_GVK: str(STATEFUL_SET),
        JOB_OWNER_NAME: tree["metadata"]["name"],
    }
    return {**workload, "metadata": {**workload["metadata"], "annotations": annotations}}


def _labelled(tree: Tree, **labels: str) -> Tree:
    return _with_metadata(tree, "labels", labels_of(tree), labels)


def _annotated(tree: Tree, **annotations: str) -> Tree:
    return _with_metadata(tree, "annotations", annotations_of(tree), annotations)


def _with_metadata(tree: Tree, name: str, old: Tree, more: dict[str, Any]) -> Tree:
    if all(old.get(key) == value for key, value in more.items()):
        return tree
    return {**tree, "metadata": {**tree["metadata"], name: {**old, **more}}}


def _is_of_old_revision(tree: Tree, pod: Tree) -> bool:
    found = tree.get("status") or {}
    current = found.get("currentRevision")
    return current != found.get("updateRevision") and current == labels_of(pod).get(REVISION)


def _ungated(pod: Tree) -> Tree:
    gates = pod["spec"].get("schedulingGates") or []
    kept = [each for each in gates if each["name"] not in (ADMISSION_GATE, TOPOLOGY_GATE)]
    if len(kept) == len(gates):
        return pod
    spec = {name: value for name, value in pod["spec"].items() if name != "schedulingGates"}
    return {**pod, "spec": {**spec, "schedulingGates": kept} if kept else spec}


def _patched(old: Tree, new: Tree) -> Steps:
    """The pod as stored; None when it is gone."""
    if new is old:
        return old
    try:
        return (yield MergePatch("Pod", old, new))
    except ApiError as error:
        if is_not_found(error):
            return None
        raise
