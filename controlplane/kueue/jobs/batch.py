"""batch/Jobs. Follows `pkg/controller/jobs/job/job_controller.go`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from attrs import define

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.validation import parse_int64
from controlplane.kubelet.cm.go_text import GoTextError, parse_bool
from controlplane.kueue.controllers.effects import MergePatch
from controlplane.kueue.jobs.ancestors import JOB
from controlplane.kueue.jobs.kinds import Finished, Steps
from controlplane.kueue.jobs.objects import Kind, annotations_of
from controlplane.kueue.jobs.pod_sets import (
    MAIN,
    Info,
    PermanentError,
    merge_into,
    pod_set,
    restore,
    topology_request,
)
from controlplane.kueue.jobs.workloads import ObjectJob

__all__ = [
    "EQUAL_PARALLELISM",
    "MIN_PARALLELISM",
    "BatchJob",
    "equal_parallelism",
    "is_suspended",
    "pods_count",
]

MIN_PARALLELISM: Final = "kueue.x-k8s.io/job-min-parallelism"
EQUAL_PARALLELISM: Final = "kueue.x-k8s.io/job-completions-equal-parallelism"
STOPPING: Final = "kueue.x-k8s.io/stopping"
INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"
_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
_MANAGED_LABELS: Final = (
    "job-name",
    "controller-uid",
    _NAME_LABEL,
    "batch.kubernetes.io/controller-uid",
)
"""Labels that the job controller adds to pod templates."""


def is_suspended(job: Tree) -> bool:
    """Return whether a job is suspended for good: one that is being stopped is not yet."""
    return job["spec"].get("suspend") is True and annotations_of(job).get(STOPPING) != "true"


def pods_count(job: Tree) -> int:
    """The number of pods that run at a time."""
    spec = job["spec"]
    parallelism = 1 if spec.get("parallelism") is None else spec["parallelism"]
    completions = spec.get("completions")
    return int(parallelism if completions is None else min(parallelism, completions))


def min_pods_count(job: Tree) -> int | None:
    """The fewest pods with which the job may start, None without partial admission."""
    text = annotations_of(job).get(MIN_PARALLELISM)
    return None if text is None else parse_int64(text)


def equal_parallelism(job: Tree) -> bool:
    """Return whether completions follow the parallelism."""
    try:
        return parse_bool(annotations_of(job).get(EQUAL_PARALLELISM, "false"))
    except GoTextError:
        return False


def ended_indexes(job: Tree, completions: int) -> int:
    """The number of indexes below `completions` that are completed or have failed for good."""
    status = job.get("status") or EMPTY_MAP
    ended: list[tuple[int, int]] = []
    for name in ("completedIndexes", "failedIndexes"):
        ended += _intervals(status.get(name) or "", completions)
    count, last_counted = 0, -1
    for first, last in sorted(ended):
        start = max(first, last_counted + 1)
        if start <= last:
            count += last - start + 1
            last_counted = last
    return count


def _intervals(text: str, limit: int) -> Iterator[tuple[int, int]]:
    """First and last index of each interval, cut at the limit; malformed ones are passed over."""
    for part in text.split(",") if text else ():
        low, dash, high = part.partition("-")
        first, last = parse_int64(low), parse_int64(high) if dash else parse_int64(low)
        if first is None or last is None or last < first:
            continue
        last = min(last, limit - 1)
        if first <= last:
            yield first, last


@define
class BatchJob(ObjectJob):
    """A batch/Job."""

    kind: ClassVar[Kind] = JOB

    def is_suspended(self) -> bool:
        """See `is_suspended`."""
        return is_suspended(self.tree)

    def suspended(self, tree: Tree) -> Tree:
        """The job suspended."""
        return {**tree, "spec": {**tree["spec"], "suspend": True}}

    def pod_sets(self) -> list[Tree]:
        """One pod set; labels of the job controller are left out, but for the job's name."""
        template = self.tree["spec"].get("template") or {}
        metadata = template.get("metadata") or EMPTY_MAP
        if metadata.get("labels"):
            dropped = [name for name in _MANAGED_LABELS if name != _NAME_LABEL]
            labels = {
                name: value for name, value in metadata["labels"].items() if name not in dropped
            }
            template = {**template, "metadata": {**metadata, "labels": labels}}
        topology = topology_request(
            metadata.get("annotations") or EMPTY_MAP, self.around.gates, INDEX_LABEL
        )
        made = pod_set(MAIN, template, pods_count(self.tree), topology, min_pods_count(self.tree))
        return [made]

    def started(self, tree: Tree, infos: Sequence[Info]) -> Tree:
        """The job running; with partial admission it takes the admitted count."""
        if len(infos) != 1:
            text = f"invalid podset infos: expecting 1 podset, got {len(infos)}"
            raise PermanentError(text)
        spec = {**tree["spec"], "suspend": False}
        if min_pods_count(tree) is not None:
            spec = _with_count(tree, spec, infos[0].count)
        spec["template"] = merge_into(spec.get("template") or {}, infos[0], self.around.gates)
        return {**tree, "spec": spec}

    def restored(self, tree: Tree, infos: Sequence[Info]) -> Tree:
        """The job with the template and the parallelism of its Workload."""
        spec = dict(tree["spec"])
        if min_pods_count(tree) is not None:
            spec = _with_count(tree, spec, infos[0].count)
        template = spec.get("template") or {}
        now = (template.get("metadata") or EMPTY_MAP).get("labels") or EMPTY_MAP
        kept = {name: now[name] for name in _MANAGED_LABELS if name in now}
        info = infos[0]
        if kept:
            info = Info(
                info.name,
                info.count,
                info.annotations,
                {**info.labels, **kept},
                info.node_selector,
                info.tolerations,
                info.gates,
            )
        spec["template"] = restore(template, info)
        return {**tree, "spec": spec}

    def is_active(self) -> bool:
        """Return whether the job has pods."""
        return bool((self.tree.get("status") or EMPTY_MAP).get("active"))

    def finished(self) -> Finished | None:
        """The message of the condition Complete or Failed."""
        for each in (self.tree.get("status") or EMPTY_MAP).get("conditions") or ():
            if each["type"] in {"Complete", "Failed"} and each["status"] == "True":
                return each.get("message", ""), each["type"] == "Complete"
        return None

    def pods_ready(self) -> bool:
        """Return whether as many pods are ready or have succeeded as run at a time."""
        status = self.tree.get("status") or EMPTY_MAP
        uncounted = (status.get("uncountedTerminatedPods") or EMPTY_MAP).get("succeeded") or ()
        done = (status.get("succeeded") or 0) + (status.get("ready") or 0) + len(uncounted)
        return bool(done >= pods_count(self.tree))

    def reclaimable_pods(self) -> list[Tree] | None:
        """Pods for which no work is left."""
        spec, status = self.tree["spec"], self.tree.get("status") or EMPTY_MAP
        parallelism = 1 if spec.get("parallelism") is None else spec["parallelism"]
        completions = parallelism if spec.get("completions") is None else spec["completions"]
        done = status.get("succeeded") or 0
        if spec.get("completionMode") == "Indexed":
            done = ended_indexes(self.tree, completions)
        left = max(completions - done, 0)
        if parallelism <= 1 or done <= 0 or left >= parallelism:
            return []
        return [{"name": MAIN, "count": parallelism - left}]

    def stop(self, infos: Sequence[Info], reason: str, message: str) -> Steps:
        """Stop in three requests: suspend, reset the start time, restore the template.

        An annotation marks a job that is between the first and the last; a crash in between leaves it.
        """
        stopped = not self.is_suspended()
        if stopped:
            new = self.suspended(self.tree)
            metadata = new["metadata"]
            annotations = {**(metadata.get("annotations") or {}), STOPPING: "true"}
            new = {**new, "metadata": {**metadata, "annotations": annotations}}
            self.tree = yield MergePatch(JOB.kind, self.tree, new)
        status = self.tree.get("status") or EMPTY_MAP
        if status.get("startTime") is not None:
            kept = {name: value for name, value in status.items() if name != "startTime"}
            self.tree = yield MergePatch(
                JOB.kind, self.tree, {**self.tree, "status": kept}, "status"
            )
        new = self.restored(self.tree, infos) if infos else self.tree
        if STOPPING in annotations_of(new):
            annotations = {
                name: value for name, value in annotations_of(new).items() if name != STOPPING
            }
            new = {**new, "metadata": {**new["metadata"], "annotations": annotations}}
        self.tree = yield MergePatch(JOB.kind, self.tree, new)
        return [self.tree] if stopped else []


def _with_count(job: Tree, spec: Tree, count: int) -> Tree:
    counted = {**spec, "parallelism": count}
    if equal_parallelism(job):
        counted["completions"] = count
    return counted
