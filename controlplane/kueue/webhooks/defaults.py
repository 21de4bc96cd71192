"""Defaults of Kueue's objects and of the jobs that it manages.

Each function returns the object with defaults. Follows the `Default` functions of `pkg/webhooks`,
`pkg/controller/jobframework/defaults.go` and the webhooks of `pkg/controller/jobs`.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.ancestors import Surroundings
from controlplane.kueue.jobs.objects import (
    annotations_of,
    is_elastic,
    labels_of,
    priority_class,
    queue_name,
)
from controlplane.kueue.jobs.pods import role_hash
from controlplane.kueue.names import (
    ADMISSION_GATE,
    DEFAULT_LOCAL_QUEUE,
    DEFAULT_PRIORITY_CLASS,
    ELASTIC_JOB,
    IN_USE,
    MANAGED,
    PRIORITY_CLASS,
    QUEUE,
    ROLE_HASH,
    SUSPENDED_BY_PARENT,
    TOPOLOGY_GATE,
)

__all__ = [
    "default_job",
    "default_pod",
    "default_workload",
    "with_in_use",
]

POD_INDEX_LABEL: Final = "kueue.x-k8s.io/pod-group-pod-index"
POD_INDEX_LABEL_ANNOTATION: Final = "kueue.x-k8s.io/pod-group-pod-index-label"


def with_in_use(tree: Tree) -> Tree:
    """A ClusterQueue or ResourceFlavor with Kueue's finalizer."""
    finalizers = tree["metadata"].get("finalizers") or []
    if IN_USE in finalizers:
        return tree
    return {**tree, "metadata": {**tree["metadata"], "finalizers": [*finalizers, IN_USE]}}


def default_workload(workload: Tree, gates: Gates) -> Tree:
    """A Workload without minimal counts when partial admission is off."""
    if gates.enabled("PartialAdmission"):
        return workload
    pod_sets = [
        {name: value for name, value in each.items() if name != "minCount"}
        for each in workload["spec"].get("podSets") or ()
    ]
    return {**workload, "spec": {**workload["spec"], "podSets": pod_sets}}


def with_label(tree: Tree, name: str, value: str) -> Tree:
    """An object with one more label."""
    labels = {**labels_of(tree), name: value}
    return {**tree, "metadata": {**tree["metadata"], "labels": labels}}


def with_annotation(tree: Tree, name: str, value: str) -> Tree:
    """An object with one more annotation."""
    annotations = {**annotations_of(tree), name: value}
    return {**tree, "metadata": {**tree["metadata"], "annotations": annotations}}


def with_gate(spec: Tree, gate: str) -> Tree:
    """A pod specification with one more scheduling gate."""
    gates = spec.get("schedulingGates") or []
    if any(each["name"] == gate for each in gates):
        return spec
    return {**spec, "schedulingGates": [*gates, {"name": gate}]}


def default_local_queue(job: Tree, around: Surroundings) -> Tree:
    """A job with the local queue `default` if its namespace has one and the job names none."""
    namespace = job["metadata"].get("namespace", "")
    if not around.default_queue_exists(namespace) or queue_name(job):
        return job
    if around.owner_is_managed(job) or not around.namespace_is_managed(namespace):
        return job
    return with_label(job, QUEUE, DEFAULT_LOCAL_QUEUE)


def default_priority_class(job: Tree, around: Surroundings) -> Tree:
    """A job with the WorkloadPriorityClass `default` if there is one and the job names none."""
    if not around.gates.enabled("WorkloadPriorityClassDefaulting") or priority_class(job):
        return job
    if around.owner_is_managed(job):
        return job
    if around.reader.get("WorkloadPriorityClass", "", DEFAULT_PRIORITY_CLASS) is None:
        return job
    return with_label(job, PRIORITY_CLASS, DEFAULT_PRIORITY_CLASS)


def default_job(job: Tree, around: Surroundings) -> Tree:
    """A batch/Job as it is stored: with a queue and a priority class, suspended when it is managed.

    Raises:
        AncestorError: Its owners or its namespace are not known.
    """
    job = default_local_queue(job, around)
    job = default_priority_class(job, around)
    if around.should_be_suspended(job) and not _is_suspended(job):
        job = {**job, "spec": {**job["spec"], "suspend": True}}
    if is_elastic(job, around.gates):
        template = job["spec"]["template"]
        gated = {**template, "spec": with_gate(template.get("spec") or {}, ELASTIC_JOB)}
        job = {**job, "spec": {**job["spec"], "template": gated}}
    return job


def _is_suspended(job: Tree) -> bool:
    stopping = annotations_of(job).get("kueue.x-k8s.io/stopping") == "true"
    return job["spec"].get("suspend") is True and not stopping


def default_pod(pod: Tree, around: Surroundings) -> Tree:
    """A pod as it is stored: managed pods get a label, a finalizer, gates and the hash of their role.

    Raises:
        AncestorError: Its owners or its namespace are not known.
    """
    by_parent = SUSPENDED_BY_PARENT in annotations_of(pod)
    if not by_parent:
        namespace = pod["metadata"].get("namespace", "")
        if not around.namespace_is_managed(namespace):
            return pod
        if around.managed_ancestor(pod) is not None:
            return pod
        if not queue_name(pod) and around.default_queue_exists(namespace):
            pod = with_label(pod, QUEUE, DEFAULT_LOCAL_QUEUE)
        pod = default_priority_class(pod, around)
        if not queue_name(pod) and not around.manage_without_queue:
            return pod
        pod = with_label(pod, MANAGED, "true")
        finalizers = pod["metadata"].get("finalizers") or []
        if MANAGED not in finalizers:
            pod = {**pod, "metadata": {**pod["metadata"], "finalizers": [*finalizers, MANAGED]}}
    return _held(pod, around.gates)


def _held(pod: Tree, gates: Gates) -> Tree:
    spec = with_gate(pod.get("spec") or {}, ADMISSION_GATE)
    if gates.enabled("TopologyAwareScheduling"):
        index_label = annotations_of(pod).get(POD_INDEX_LABEL_ANNOTATION)
        if index_label is not None:
            pod = with_label(pod, POD_INDEX_LABEL, labels_of(pod).get(index_label, ""))
        spec = with_gate(spec, TOPOLOGY_GATE)
    pod = {**pod, "spec": spec}
    return with_annotation(pod, ROLE_HASH, role_hash(pod))
