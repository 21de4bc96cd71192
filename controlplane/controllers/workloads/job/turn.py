"""Data of one sync of a Job: its pods, its indexes and its progress.

Upstream: syncJobCtx of job/job_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from controlplane.api.times import SECOND
from controlplane.controllers.common.pods import is_active, is_ready, is_terminating
from controlplane.controllers.workloads.job import pods as jobpods
from controlplane.controllers.workloads.job.backoff import BackoffRecord, finished_at
from controlplane.controllers.workloads.job.failure_policy import (
    FAIL_INDEX,
    match_pod_failure_policy,
)
from controlplane.controllers.workloads.job.indexes import Intervals, parse
from controlplane.controllers.workloads.job.status import (
    FAILED,
    FAILURE_TARGET,
    SUCCEEDED,
    SUCCESS_CRITERIA_MET,
    Ending,
    JobStatusDraft,
)
from controlplane.controllers.workloads.job.success_policy import match_success_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.api.batch import Job
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.controllers.workloads.job.scheduling import GroupOfJob


@define
class Turn:
    """One turn. `removing` are uids whose finalizer removal has not been seen yet."""

    job: Job
    pods: Sequence[Pod]
    removing: frozenset[str]
    before: BackoffRecord
    now: int
    group: GroupOfJob | None = None
    """The group with which the pods are scheduled."""
    status: JobStatusDraft = field(init=False)
    indexed: bool = field(init=False)
    per_index: bool = field(init=False)
    active_pods: list[Pod] = field(init=False)
    active: int = field(init=False)
    ready: int = field(init=False)
    terminating: int = field(init=False)
    counted: dict[str, frozenset[str]] = field(init=False)
    succeeded: int = field(init=False)
    failed: int = field(init=False)
    backoff: BackoffRecord = field(init=False)
    started_at: int | None = field(init=False)
    succeeded_before: Intervals = field(init=False)
    succeeded_indexes: Intervals = field(init=False)
    failed_indexes: Intervals | None = field(init=False, default=None)
    delayed: dict[int, Pod] = field(init=False, factory=dict)
    ending: Ending | None = field(init=False, default=None)
    base: Tree | None = field(init=False, default=None)
    """The server's answer when the status was last written in this sync."""

    def __attrs_post_init__(self) -> None:
        job = self.job
        self.status = JobStatusDraft(job.tree.get("status"))
        self.indexed = jobpods.is_indexed(job)
        self.per_index = job.spec.backoff_limit_per_index is not None
        self.active_pods = [pod for pod in self.pods if is_active(pod)]
        self.active = len(self.active_pods)
        self.ready = sum(1 for pod in self.active_pods if is_ready(pod))
        self.terminating = sum(1 for pod in self.pods if is_terminating(pod))
        self.counted = {name: frozenset(uids) for name, uids in self.status.uncounted.items()}
        done = self._valid(lambda pod: pod.status.phase == "Succeeded", self.counted[SUCCEEDED])
        lost = self._valid(lambda pod: jobpods.is_failed(pod, job), self.counted[FAILED])
        counts = sum(1 for pod in lost if self._counts(pod))
        self.succeeded = job.status.succeeded + len(done) + len(self.counted[SUCCEEDED])
        self.failed = job.status.failed + counts + len(self.counted[FAILED])
        self.backoff = self.before.after(done, lost)
        self.started_at = job.status.start_time
        self.succeeded_before = self.succeeded_indexes = Intervals()

    def _counts(self, pod: Pod) -> bool:
        return match_pod_failure_policy(self.job.spec.pod_failure_policy, pod).counts

    def _valid(
        self, wanted: Callable[[Pod], bool], counted: frozenset[str] = frozenset()
    ) -> list[Pod]:
        """Pods of that sort that have still to be counted; with indexes, those whose index is valid."""
        return [
            pod
            for pod in self.pods
            if jobpods.is_tracked(pod)
            and pod.uid not in counted
            and pod.uid not in self.removing
            and (not self.indexed or jobpods.valid_index(pod, self.job) is not None)
            and wanted(pod)
        ]

    @property
    def suspended(self) -> bool:
        """Return whether no pods are to run."""
        return self.job.spec.suspend

    # ------------------------------------------------------------------ how it stands

    def judge(self) -> int | None:
        """Work out whether the Job is to end, and why; if it has a deadline ahead, nanoseconds until then."""
        deadline = None
        self.ending = self._known_ending() or self._policy_failure()
        if self.ending is None:
            deadline = self._limits()
        if self.indexed:
            self._judge_indexes()
        return deadline

    def _known_ending(self) -> Ending | None:
        """Return the decision of an earlier sync."""
        for kind in (SUCCESS_CRITERIA_MET, FAILURE_TARGET):
            found = self.status.condition(kind)
            if found is not None and found.get("status") == "True":
                ending = Ending(
                    kind, found.get("reason") or "", found.get("message") or "", self.now
                )
                return ending if kind == SUCCESS_CRITERIA_MET else ending.final(self.now)
        return None

    def _policy_failure(self) -> Ending | None:
        policy = self.job.spec.pod_failure_policy
        for pod in self.pods if policy is not None else ():
            if jobpods.is_failed(pod, self.job):
                message = match_pod_failure_policy(policy, pod).message
                if message is not None:
                    return self._failure("PodFailurePolicy", message)
        return None

    def _failure(self, reason: str, message: str) -> Ending:
        return Ending(FAILURE_TARGET, reason, message, self.now)

    def _limits(self) -> int | None:
        spec = self.job.spec
        limit = spec.backoff_limit or 0
        if self.failed > limit or self._restarts_exceed(limit):
            self.ending = self._failure(
                "BackoffLimitExceeded", "Job has reached the specified backoff limit"
            )
            return None
        allowed = spec.active_deadline_seconds
        if allowed is None or self.suspended or self.started_at is None:
            return None
        left = self.started_at + allowed * SECOND - self.now
        if left > 0:
            return left
        self.ending = self._failure(
            "DeadlineExceeded", "Job was active longer than specified deadline"
        )
        return None

    def _restarts_exceed(self, limit: int) -> bool:
        """Return whether containers of unfinished pods restarted too often; with restart policy OnFailure only."""
        if self.job.spec.template.spec.restart_policy != "OnFailure":
            return False
        restarts = sum(
            status.restart_count
            for pod in self.pods
            if pod.status.phase in {"Running", "Pending"}
            for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        )
        return restarts > 0 if limit == 0 else restarts >= limit

    def _judge_indexes(self) -> None:
        spec = self.job.spec
        completions = spec.completions or 0
        self.succeeded_before = parse(self.job.status.completed_indexes, completions)
        self.succeeded_indexes = self.succeeded_before.with_indexes(
            self._new_indexes(lambda pod: pod.status.phase == "Succeeded")
        )
        self.succeeded = self.succeeded_indexes.total
        if self.per_index:
            before = parse(self.job.status.failed_indexes or "", completions)
            failed = before.with_indexes(self._new_indexes(self._fails_index))
            self.failed_indexes = failed
            if self.ending is None:
                most = spec.max_failed_indexes
                if most is not None and failed.total > most:
                    self.ending = self._failure(
                        "MaxFailedIndexesExceeded",
                        "Job has exceeded the specified maximal number of failed indexes",
                    )
                elif failed.total > 0 and failed.total + self.succeeded >= completions:
                    self.ending = self._failure("FailedIndexes", "Job has failed indexes")
            self._find_delayed(failed)
        if self.ending is None:
            met = match_success_policy(spec.success_policy, completions, self.succeeded_indexes)
            if met is not None:
                self.ending = Ending(SUCCESS_CRITERIA_MET, "SuccessPolicy", met, self.now)

    def _new_indexes(self, wanted: Callable[[Pod], bool]) -> list[int]:
        """Valid indexes of tracked pods of that sort."""
        tracked = [pod for pod in self.pods if jobpods.is_tracked(pod)]
        return jobpods.indexes_of(
            pod for pod in tracked if jobpods.valid_index(pod, self.job) is not None and wanted(pod)
        )

    def _fails_index(self, pod: Pod) -> bool:
        if not jobpods.is_failed(pod, self.job):
            return False
        match = match_pod_failure_policy(self.job.spec.pod_failure_policy, pod)
        if match.action == FAIL_INDEX:
            return True
        limit = self.job.spec.backoff_limit_per_index or 0
        return match.counts and jobpods.failure_count(pod) >= limit

    def _find_delayed(self, failed: Intervals) -> None:
        """Per index to be tried again the last failed pod: it stays until its replacement carries on its counts."""
        active = jobpods.indexes_of(self.active_pods)
        for pod in self._valid(lambda each: jobpods.is_failed(each, self.job)):
            index = jobpods.valid_index(pod, self.job)
            if (
                index is None
                or index in self.succeeded_indexes
                or index in failed
                or index in active
            ):
                continue
            known = self.delayed.get(index)
            if known is None or (
                failures(known) <= failures(pod) and finished_at(pod) >= finished_at(known)
            ):
                self.delayed[index] = pod

    # ------------------------------------------------------------------ pods to run

    def wanted(self) -> int:
        """The number of pods that should be active."""
        spec = self.job.spec
        parallelism = 1 if spec.parallelism is None else spec.parallelism
        if spec.completions is None:
            return self.active if self.succeeded > 0 else parallelism
        return max(0, min(parallelism, spec.completions - self.succeeded))

    def pending_indexes(self, count: int) -> list[int]:
        """The first indexes that have no pod and are neither done nor failed."""
        taken = self.succeeded_indexes.with_indexes(jobpods.indexes_of(self.active_pods))
        if jobpods.replaces_failed_only(self.job):
            leaving = [pod for pod in self.pods if is_terminating(pod)]
            taken = taken.with_indexes(jobpods.indexes_of(leaving))
        if self.failed_indexes is not None:
            taken = taken.merged(self.failed_indexes)
        return taken.free(count, self.job.spec.completions or 0)

    def new_failures(self, index: int) -> tuple[int, int] | None:
        """Return the counted and ignored failures of an index for a new pod; None without per-index limit."""
        if not self.per_index:
            return None
        replaced = self.delayed.get(index)
        if replaced is None:
            return 0, 0
        counts = self._counts(replaced)
        return (
            jobpods.failure_count(replaced) + counts,
            jobpods.ignored_failure_count(replaced) + (not counts),
        )

    def is_complete(self) -> bool:
        """Return whether enough pods have succeeded and none is active."""
        completions = self.job.spec.completions
        enough = self.succeeded > 0 if completions is None else self.succeeded >= completions
        return enough and self.active == 0


def failures(pod: Pod) -> int:
    """Return the number of failed pods of this index before it, counted or not."""
    return jobpods.failure_count(pod) + jobpods.ignored_failure_count(pod)
