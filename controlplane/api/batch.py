"""Jobs and cron jobs."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.meta import LabelSelector, ObjectMeta
from controlplane.api.pod import PodTemplateSpec
from controlplane.api.references import ObjectReference
from controlplane.api.times import Time
from controlplane.api.view import View


@attrs.frozen
class PodFailurePolicyOnExitCodesRequirement:
    """Exit codes that a failure rule applies to."""

    container_name: str | None = None
    operator: str = ""
    values: tuple[int, ...] = ()


@attrs.frozen
class PodFailurePolicyOnPodConditionsPattern:
    """A pod condition that a failure rule applies to."""

    status: str = ""
    type: str = ""


@attrs.frozen
class PodFailurePolicyRule:
    """The effect of a certain failure on the job."""

    action: str = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


@attrs.frozen
class PodFailurePolicy:
    """Rules for failed pods; the first that fits counts."""

    rules: tuple[PodFailurePolicyRule, ...] = ()


@attrs.frozen
class SuccessPolicyRule:
    """The condition of an early success of the job."""

    succeeded_count: int | None = None
    succeeded_indexes: str | None = None


@attrs.frozen
class SuccessPolicy:
    """Rules for early success."""

    rules: tuple[SuccessPolicyRule, ...] = ()


@attrs.frozen
class JobSpec:
    """Wanted runs of a job."""

    active_deadline_seconds: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    completion_mode: str | None = None
    completions: int | None = None
    managed_by: str | None = None
    manual_selector: bool = False
    max_failed_indexes: int | None = None
    parallelism: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    pod_replacement_policy: str | None = None
    selector: LabelSelector | None = None
    success_policy: SuccessPolicy | None = None
    suspend: bool = False
    template: PodTemplateSpec = attrs.field(factory=PodTemplateSpec)
    ttl_seconds_after_finished: int | None = None


@attrs.frozen
class JobCondition:
    """A condition of a job."""

    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    message: str = ""
    reason: str = ""
    status: str = ""
    type: str = ""


@attrs.frozen
class UncountedTerminatedPods:
    """Finished pods not yet in the counters."""

    failed: tuple[str, ...] = ()
    succeeded: tuple[str, ...] = ()


@attrs.frozen
class JobStatus:
    """Runs counted by a job."""

    active: int = 0
    completed_indexes: str = ""
    completion_time: Time | None = None
    conditions: tuple[JobCondition, ...] = ()
    failed: int = 0
    failed_indexes: str | None = None
    ready: int | None = None
    start_time: Time | None = None
    succeeded: int = 0
    terminating: int | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None


@attrs.frozen(eq=False)
class Job(View):
    """A job."""

    API_VERSION: ClassVar[str] = "batch/v1"
    KIND: ClassVar[str] = "Job"

    spec: JobSpec = attrs.field(factory=JobSpec)
    status: JobStatus = attrs.field(factory=JobStatus)


@attrs.frozen
class JobTemplateSpec:
    """The template from which a cron job makes jobs."""

    metadata: ObjectMeta = attrs.field(factory=ObjectMeta)
    spec: JobSpec = attrs.field(factory=JobSpec)


@attrs.frozen
class CronJobSpec:
    """The schedule and the template of the jobs."""

    concurrency_policy: str = ""
    failed_jobs_history_limit: int | None = None
    job_template: JobTemplateSpec = attrs.field(factory=JobTemplateSpec)
    schedule: str = ""
    starting_deadline_seconds: int | None = None
    successful_jobs_history_limit: int | None = None
    suspend: bool = False
    time_zone: str | None = None


@attrs.frozen
class CronJobStatus:
    """The jobs that a cron job started."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: Time | None = None
    last_successful_time: Time | None = None


@attrs.frozen(eq=False)
class CronJob(View):
    """A cron job."""

    API_VERSION: ClassVar[str] = "batch/v1"
    KIND: ClassVar[str] = "CronJob"

    spec: CronJobSpec = attrs.field(factory=CronJobSpec)
    status: CronJobStatus = attrs.field(factory=CronJobStatus)
