"""The CronJob controller. Upstream: pkg/controller/cronjob/cronjob_controllerv2.go."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

from attrs import define

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.client import calls
from controlplane.client.calls import delete_options
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.resources import CRON_JOBS, JOBS
from controlplane.controllers.common.controller import NORMAL, WARNING, Controller, Handlers, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.namespaces import namespace_is_terminating
from controlplane.controllers.common.owners import Owners
from controlplane.controllers.common.ownership import controller_of, controller_reference
from controlplane.controllers.common.ref_manager import namespace_index
from controlplane.controllers.common.settling import HORIZON_NS
from controlplane.controllers.workloads.cronjob.schedule import Schedule, ScheduleError, parse
from controlplane.controllers.workloads.cronjob.timing import (
    Missed,
    NoInterval,
    job_name,
    most_recent,
    until_next,
)
from controlplane.controllers.workloads.cronjob.zones import (
    UnknownTimeZone,
    load_location,
    local,
    rfc3339,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controlplane.api.batch import CronJob, Job
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
COMPLETE = "Complete"
ENDINGS = {COMPLETE, "Failed"}
FORBID = "Forbid"
REPLACE = "Replace"
DOCUMENTATION = "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/"


@define
class Turn:
    """One turn of a cron job: as it is seen, the status to be written, and when to come back."""

    cron_job: CronJob
    status: Tree
    write: bool = False
    again_ns: int | None = None

    @property
    def active(self) -> Sequence[Tree]:
        """References to running Jobs."""
        return self.status.get("active") or ()

    def lists(self, uid: str) -> bool:
        """Return whether a Job is in the active list."""
        return any((each.get("uid") or "") == uid for each in self.active)

    def drop(self, uid: str) -> None:
        """Take a Job from the active list."""
        left = [each for each in self.active if (each.get("uid") or "") != uid]
        if left:
            self.status["active"] = left
        else:
            self.status.pop("active", None)


class CronJobController(Controller):
    """Starts Jobs on schedule and keeps as much history as is wanted."""

    name = "cronjob-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("cronjob")
        self._cron_jobs = caches.of(CRON_JOBS)
        self._owners = Owners("CronJob", self._cron_jobs, self.queue.add)
        self._jobs = caches.of(JOBS, namespace=namespace_index)
        self._begun: dict[str, None] = {}
        """The cron jobs of which a scheduled time has come."""

    def work(self) -> tuple[Work, ...]:
        """One queue of cron jobs."""
        return (Work("cronjob", self.sync),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Jobs tell of their cron jobs."""
        return {
            JOBS: Handlers(self._job_seen, self._job_updated, self._job_deleted),
            CRON_JOBS: Handlers(self._seen, self._updated, self._deleted),
        }

    # ------------------------------------------------------------------ handlers

    def _seen(self, obj: Object[CronJob]) -> None:
        self.queue.add(obj.key)

    def _deleted(self, obj: Object[CronJob], _unknown: bool) -> None:
        self.queue.add(obj.key)

    def _updated(self, old: Object[CronJob], new: Object[CronJob]) -> None:
        before, cron_job = old.view.spec, new.view
        spec = cron_job.spec
        if (before.schedule, before.time_zone) == (spec.schedule, spec.time_zone):
            self.queue.add(new.key)
            return
        try:
            schedule = parse(zoned(cron_job))
        except ScheduleError:
            message = f"unparseable schedule for cronjob: {spec.schedule}"
            self.host.event(cron_job, WARNING, "UnParseableCronJobSchedule", message)
            return
        self._later(new.key, until_next(cron_job, self.host.now, schedule))

    def _later(self, key: str, delay_ns: int) -> None:
        """Come back at the next scheduled time.

        There is always one more. A run waits for the first of them, unless it is far away.
        """
        obj = self._cron_jobs.get(key)
        awaited = obj is not None and not obj.view.spec.suspend and key not in self._begun
        self.queue.add_after(key, delay_ns, idle=not awaited or delay_ns > HORIZON_NS)

    def _job_seen(self, obj: Object[Job]) -> None:
        self._owners.ask_owner(obj.view)

    def _job_updated(self, old: Object[Job], new: Object[Job]) -> None:
        if old.resource_version == new.resource_version:
            return
        if controller_of(old.view) != controller_of(new.view):
            self._job_seen(old)
        self._job_seen(new)

    def _job_deleted(self, obj: Object[Job], _unknown: bool) -> None:
        self._job_seen(obj)

    # ------------------------------------------------------------------ reconcile

    def sync(self, key: str) -> Reconcile[None]:
        """Clean up history, notice what has finished, start what is due, write the status."""
        delay = yield from self.turn(key)
        if delay is not None:
            self.queue.forget(key)
            self._later(key, delay)

    def turn(self, key: str) -> Reconcile[int | None]:
        """One turn; how long until the next one."""
        obj = self._cron_jobs.get(key)
        if obj is None:
            self._begun.pop(key, None)
            return None
        cron_job = obj.view
        if cron_job.status.last_schedule_time is not None:
            self._begun[key] = None
        # By name only: upstream compares neither kind nor uid here.
        jobs = [
            job.view
            for job in self._jobs.by_index("namespace", cron_job.namespace)
            if (owner := controller_of(job.view)) is not None and owner.name == cron_job.name
        ]
        turn = Turn(cron_job, dict(cron_job.tree.get("status") or {}))
        yield from self._clean_up(turn, jobs)
        failed: Exception | None = None
        try:
            yield from self._sync(turn, jobs)
        except (*RequestFailed, Retry) as error:
            failed = error
        if turn.write:
            yield from calls.update(CRON_JOBS, {**cron_job.tree, "status": turn.status}, "status")
        if turn.again_ns is not None:
            return turn.again_ns
        if failed is not None:
            raise failed
        return None

    # ------------------------------------------------------------------ history

    def _clean_up(self, turn: Turn, jobs: Iterable[Job]) -> Reconcile[None]:
        """Delete the oldest finished Jobs beyond the limits."""
        spec = turn.cron_job.spec
        limits = {
            COMPLETE: spec.successful_jobs_history_limit,
            "Failed": spec.failed_jobs_history_limit,
        }
        finished = [(_ending(job), job) for job in jobs]
        for ending, limit in limits.items():
            if limit is None:
                continue
            ended = sorted((job for kind, job in finished if kind == ending), key=_start)
            for job in ended[: max(0, len(ended) - limit)]:
                turn.write |= yield from self._delete(turn, job)

    def _delete(self, turn: Turn, job: Job) -> Reconcile[bool]:
        """Delete a Job and take it from the active list; whether that went well."""
        options = delete_options(propagation_policy="Background")
        try:
            yield from calls.delete(JOBS, job.namespace, job.name, options)
        except RequestFailed as error:
            self._event(turn, WARNING, "FailedDelete", f"Deleted job: {error}")
            return False
        turn.drop(job.uid)
        self._event(turn, NORMAL, "SuccessfulDelete", f"Deleted job {job.name}")
        return True

    def _event(self, turn: Turn, kind: str, reason: str, message: str) -> None:
        self.host.event(turn.cron_job, kind, reason, message)

    # ------------------------------------------------------------------ what runs

    def _sync(self, turn: Turn, jobs: Sequence[Job]) -> Reconcile[None]:
        now = self.host.now
        current = yield from self._notice(turn, jobs)
        yield from self._strike_missing(turn, current, jobs)
        cron_job = current.cron_job
        if cron_job.metadata.deletion_timestamp is not None:
            return
        schedule = self._schedule(current)
        if schedule is None:
            return
        try:
            scheduled = self._due(current, now, schedule)
        except NoInterval as error:
            message = f"invalid schedule: {cron_job.spec.schedule} : {error}"
            self._event(current, WARNING, "InvalidSchedule", message)
            return
        if scheduled is not None:
            self._begun[cron_job.key] = None
        if scheduled is not None and self._may_start(current, now, scheduled):
            yield from self._start(turn, current, scheduled)
        turn.again_ns = until_next(_with_status(current), now, schedule)

    def _notice(self, turn: Turn, jobs: Iterable[Job]) -> Reconcile[Turn]:
        """Bring the active list and the last success up to what the Jobs say.

        Answers the turn to go on with: another one, whose status is not written, where the server
        knows of a Job that the cache of cron jobs does not show in the list (as upstream has it).
        """
        current = turn
        for job in jobs:
            listed, ending = current.lists(job.uid), _ending(job)
            if not listed and ending is None:
                cron_job = current.cron_job
                live = (yield from calls.get(CRON_JOBS, cron_job.namespace, cron_job.name)).view
                seen = Turn(live, dict(live.tree.get("status") or {}))
                if seen.lists(job.uid):
                    current = seen
                    continue
                message = f"Saw a job that the controller did not create or forgot: {job.name}"
                self._event(current, WARNING, "UnexpectedJob", message)
            elif listed and ending is not None:
                current.drop(job.uid)
                message = f"Saw completed job: {job.name}, condition: {ending}"
                self._event(current, NORMAL, "SawCompletedJob", message)
                turn.write = True
            if ending == COMPLETE:
                turn.write |= _note_success(current, job)
        return current

    def _strike_missing(self, turn: Turn, current: Turn, jobs: Sequence[Job]) -> Reconcile[None]:
        """Take Jobs from the active list that the server does not know any more."""
        known = {job.uid for job in jobs}
        for each in current.active:
            if (each.get("uid") or "") in known:
                continue
            try:
                yield from calls.get(JOBS, each.get("namespace") or "", each.get("name") or "")
            except ApiError as error:
                if not is_not_found(error):
                    raise
                message = f"Active job went missing: {each.get('name')}"
                self._event(current, NORMAL, "MissingJob", message)
                current.drop(each.get("uid") or "")
                turn.write = True

    # ------------------------------------------------------------------ what is due

    def _schedule(self, turn: Turn) -> Schedule | None:
        """The schedule, unless nothing is to be started."""
        spec = turn.cron_job.spec
        if spec.time_zone is not None:
            try:
                load_location(spec.time_zone)
            except UnknownTimeZone as error:
                message = f"invalid timeZone: {json.dumps(spec.time_zone)}: {error}"
                self._event(turn, WARNING, "UnknownTimeZone", message)
                return None
        if spec.suspend:
            return None
        if "TZ" in spec.schedule:
            message = (
                f"CRON_TZ or TZ used in schedule {json.dumps(spec.schedule)} is not officially "
                f"supported, see {DOCUMENTATION} for more details"
            )
            self._event(turn, WARNING, "UnsupportedSchedule", message)
        try:
            return parse(zoned(turn.cron_job))
        except ScheduleError as error:
            message = f"unparseable schedule: {json.dumps(spec.schedule)} : {error}"
            self._event(turn, WARNING, "UnparseableSchedule", message)
            return None

    def _due(self, turn: Turn, now: int, schedule: Schedule) -> int | None:
        """The scheduled time that has come and not been started, if there is one."""
        recent = most_recent(_with_status(turn), now, schedule, starting_deadline=True)
        if recent.time is None or recent.time > now:
            return None
        if recent.missed is Missed.MANY:
            message = (
                "too many missed start times. Set or decrease .spec.startingDeadlineSeconds "
                "or check clock skew"
            )
            self._event(turn, WARNING, "TooManyMissedTimes", message)
        return recent.time

    def _may_start(self, turn: Turn, now: int, scheduled: int) -> bool:
        """Return whether a Job is to be started for that time."""
        cron_job = turn.cron_job
        deadline = cron_job.spec.starting_deadline_seconds
        if deadline is not None and scheduled + deadline * SECOND < now:
            when = local(scheduled // SECOND, UTC).strftime("%a, %d %b %Y %H:%M:%S +0000")
            message = f"Missed scheduled time to start a job: {when}"
            self._event(turn, WARNING, "MissSchedule", message)
            return False
        name = job_name(cron_job, scheduled)
        listed = any(
            (each.get("name"), each.get("namespace")) == (name, cron_job.namespace)
            for each in turn.active
        )
        if listed or turn.status.get("lastScheduleTime") == format_time(scheduled):
            return False
        if cron_job.spec.concurrency_policy == FORBID and turn.active:
            message = (
                "Not starting job because prior execution is running and concurrency policy "
                "is Forbid"
            )
            self._event(turn, NORMAL, "JobAlreadyActive", message)
            return False
        return True

    def _start(self, turn: Turn, current: Turn, scheduled: int) -> Reconcile[None]:
        """Start a Job, after ending others where that is the policy."""
        cron_job = current.cron_job
        if cron_job.spec.concurrency_policy == REPLACE:
            yield from self._replace(turn, current)
        body = new_job(cron_job, scheduled)
        try:
            made = yield from calls.create(JOBS, cron_job.namespace, body)
        except RequestFailed as error:
            if isinstance(error, ApiError) and is_already_exists(error):
                # Upstream asks without a namespace, gets 404 for the path, and gives up.
                yield from calls.get(JOBS, "", body["metadata"]["name"])
            elif not namespace_is_terminating(error):
                self._event(current, WARNING, "FailedCreate", f"Error creating job: {error}")
            raise
        self._event(current, NORMAL, "SuccessfulCreate", f"Created job {made.name}")
        # A crash from here to the status leaves a Job that is found by its name next time.
        current.status["active"] = [*current.active, _reference(made)]
        current.status["lastScheduleTime"] = format_time(scheduled)
        turn.write = True

    def _replace(self, turn: Turn, current: Turn) -> Reconcile[None]:
        for each in current.active:
            try:
                job = yield from calls.get(
                    JOBS, each.get("namespace") or "", each.get("name") or ""
                )
            except RequestFailed as error:
                self._event(current, WARNING, "FailedGet", f"Get job: {error}")
                raise
            if not (yield from self._delete(current, job.view)):
                raise Retry(f"could not replace job {job.namespace}/{job.name}")
            turn.write = True


def _with_status(turn: Turn) -> CronJob:
    """The cron job with the status as it has become."""
    cron_job = turn.cron_job
    return type(cron_job).from_tree({**cron_job.tree, "status": turn.status})


def zoned(cron_job: CronJob) -> str:
    """The schedule with the time zone, if there is a valid one and the schedule names none itself."""
    spec = cron_job.spec
    if "TZ" in spec.schedule or spec.time_zone is None:
        return spec.schedule
    try:
        load_location(spec.time_zone)
    except UnknownTimeZone:
        return spec.schedule
    return f"TZ={spec.time_zone} {spec.schedule}"


def _ending(job: Job) -> str | None:
    """Return the end of a Job: Complete or Failed."""
    for condition in job.status.conditions:
        if condition.type in ENDINGS and condition.status == "True":
            return condition.type
    return None


def _start(job: Job) -> tuple[bool, int, str]:
    """Oldest start first; those that never started last."""
    since = job.status.start_time
    return since is None, since or 0, job.name


def _note_success(turn: Turn, job: Job) -> bool:
    """Note when a Job succeeded, if that is the latest; whether the status is to be written."""
    noted, ended = turn.status.get("lastSuccessfulTime"), job.status.completion_time
    if noted is not None and (ended is None or ended <= parse_time(noted)):
        return False
    if ended is not None:
        turn.status["lastSuccessfulTime"] = format_time(ended)
    return True


def new_job(cron_job: CronJob, scheduled: int) -> Tree:
    """The Job for a scheduled time."""
    template = cron_job.tree["spec"].get("jobTemplate") or {}
    given = template.get("metadata") or {}
    zone = load_location(cron_job.spec.time_zone or "")
    at = rfc3339(scheduled // SECOND, zone)
    metadata: Tree = {
        "name": job_name(cron_job, scheduled),
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: at},
        "creationTimestamp": format_time(scheduled),
        "ownerReferences": [controller_reference(cron_job)],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def _reference(job: Object[Job]) -> Tree:
    found = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job.name,
        "namespace": job.namespace,
        "uid": job.uid,
        "resourceVersion": str(job.metadata.get("resourceVersion") or ""),
    }
    return {key: value for key, value in found.items() if value}
