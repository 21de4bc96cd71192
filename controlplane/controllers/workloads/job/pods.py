"""Questions of Jobs about their pods, and the parts of new pods.

Upstream: job/indexed_job_utils.go, job/tracking_utils.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.validation import parse_int64
from controlplane.controllers.common.pod_control import pod_of_template
from controlplane.controllers.common.pods import by_activity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controlplane.api.batch import Job
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree

TRACKING = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
LONGEST_PREFIX = 58
MOST_FAILURES = 2**31 - 1


UNTRACK: Tree = {"metadata": {"$deleteFromPrimitiveList/finalizers": [TRACKING]}}
"""Strategic merge patch that takes the tracking finalizer away."""


def is_indexed(job: Job) -> bool:
    """Return whether each pod has an index of its own."""
    return job.spec.completion_mode == "Indexed"


def is_tracked(pod: Pod) -> bool:
    """Return whether the pod still has to be counted, or its finalizer to be removed."""
    return TRACKING in pod.metadata.finalizers


def is_finished(job: Job) -> bool:
    """Return whether the Job is Complete or Failed."""
    return any(
        each.type in {"Complete", "Failed"} and each.status == "True"
        for each in job.status.conditions
    )


def replaces_failed_only(job: Job) -> bool:
    """Return whether a pod is replaced only once it has failed, not already when it terminates."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_failed(pod: Pod, job: Job) -> bool:
    """Return whether the pod counts as failed: by its phase, or because it is deleted before it succeeded."""
    if pod.status.phase == "Failed":
        return True
    if replaces_failed_only(job):
        return False
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def completion_index(pod: Pod) -> int | None:
    """The pod's index; None where the annotation is absent or no natural number."""
    text = pod.annotations.get(COMPLETION_INDEX)
    index = None if text is None else parse_int64(text)
    return index if index is not None and index >= 0 else None


def valid_index(pod: Pod, job: Job) -> int | None:
    """The pod's index if it lies below completions."""
    index = completion_index(pod)
    return index if index is not None and index < (job.spec.completions or 0) else None


def indexes_of(pods: Iterable[Pod]) -> list[int]:
    """The indexes of the pods, sorted, each once."""
    return sorted({index for pod in pods if (index := completion_index(pod)) is not None})


def failure_count(pod: Pod) -> int:
    """Return the number of failed pods of this index before it."""
    return _count(pod, FAILURE_COUNT)


def ignored_failure_count(pod: Pod) -> int:
    """Return the number of failed pods of this index before it that were not counted."""
    return _count(pod, IGNORED_FAILURE_COUNT)


def _count(pod: Pod, annotation: str) -> int:
    text = pod.annotations.get(annotation, "")
    count = parse_int64(text) or 0
    return count if 0 <= count <= MOST_FAILURES else 0


def for_removal(job: Job, active: Sequence[Pod], at_least: int) -> list[Pod]:
    """The active pods to delete: at least `at_least`, and with indexes also doubles and invalid ones."""
    removed: list[Pod] = []
    left = list(active)
    if is_indexed(job):
        removed, left = _doubles(job, left)
    if len(removed) < at_least:
        removed += by_activity(left)[: at_least - len(removed)]
    return removed


def _doubles(job: Job, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
    """Pods beyond the one that ranks last of each index, or without a valid index; and the others."""
    groups: dict[int | None, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(valid_index(pod, job), []).append(pod)
    removed: list[Pod] = groups.pop(None, [])
    left: list[Pod] = []
    for _, group in sorted(groups.items(), key=lambda item: item[0] or 0):
        *worse, best = by_activity(group)
        removed += worse
        left.append(best)
    return removed, left


def new_pod(job: Job, index: int | None, failures: tuple[int, int] | None) -> Tree:
    """The pod that the template asks for; `failures` are those of its index, counted and ignored."""
    pod = pod_of_template(job, job.tree["spec"]["template"])
    metadata: Tree = pod["metadata"]
    finalizers = metadata.get("finalizers", [])
    if TRACKING not in finalizers:
        metadata["finalizers"] = [*finalizers, TRACKING]
    if index is None:
        return pod
    annotations = {**metadata.get("annotations", {}), COMPLETION_INDEX: str(index)}
    if failures is not None:
        annotations[FAILURE_COUNT] = str(failures[0])
        if failures[1]:
            annotations[IGNORED_FAILURE_COUNT] = str(failures[1])
    metadata["annotations"] = annotations
    metadata["labels"] = {**metadata.get("labels", {}), COMPLETION_INDEX: str(index)}
    ending = f"-{index}-"
    metadata["generateName"] = f"{job.name[: LONGEST_PREFIX - len(ending)]}{ending}"
    spec = {**pod["spec"], "hostname": f"{job.name}-{index}"}
    for name in ("initContainers", "containers"):
        if spec.get(name):
            spec[name] = [_with_index(container) for container in spec[name]]
    pod["spec"] = spec
    return pod


def _with_index(container: Tree) -> Tree:
    """The container with its index in the environment."""
    variables = container.get("env") or []
    if any(each.get("name") == INDEX_VARIABLE for each in variables):
        return container
    path = f"metadata.labels['{COMPLETION_INDEX}']"
    added = {"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*variables, added]}
