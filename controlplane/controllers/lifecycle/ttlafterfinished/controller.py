"""The TTL-after-finished controller. Upstream: pkg/controller/ttlafterfinished/ttlafterfinished_controller.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.times import SECOND
from controlplane.client import calls
from controlplane.client.calls import delete_options
from controlplane.client.errors import ApiError, is_not_found
from controlplane.client.resources import JOBS
from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
from controlplane.controllers.common.effects import Reconcile, Retry

if TYPE_CHECKING:
    from controlplane.api.batch import Job
    from controlplane.api.object import Object
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

FOREGROUND = "Foreground"


class TTLAfterFinishedController(Controller):
    """Deletes finished Jobs ttlSecondsAfterFinished after their end."""

    name = "ttl-after-finished-controller"

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue("ttl_jobs_to_delete")
        self._jobs = caches.of(JOBS)

    def work(self) -> tuple[Work, ...]:
        """One queue of Jobs."""
        return (Work("ttl_jobs_to_delete", self.process),)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Jobs that have finished and have a time to live are looked at."""
        return {JOBS: Handlers(self._seen, lambda _, new: self._seen(new), ignore)}

    def _seen(self, obj: Object[Job]) -> None:
        job = obj.view
        if job.metadata.deletion_timestamp is None and needs_cleanup(job):
            self.queue.add(obj.key)

    def process(self, key: str) -> Reconcile[None]:
        """Delete the Job if its time is over by what the server says now, else come back then."""
        obj = self._jobs.get(key)
        if obj is None or not self._expired(obj.view):
            return
        # The cached time to live may be old; a Job of another uid is judged anew.
        try:
            fresh = (yield from calls.get(JOBS, obj.namespace, obj.name)).view
        except ApiError as error:
            if is_not_found(error):
                return
            raise
        if self._expired(fresh):
            options = delete_options(uid=fresh.uid, propagation_policy=FOREGROUND)
            yield from calls.delete(JOBS, fresh.namespace, fresh.name, options)

    def _expired(self, job: Job) -> bool:
        """Return whether the Job is to go now; if it is to go later, it is asked for then."""
        if job.metadata.deletion_timestamp is not None or not needs_cleanup(job):
            return False
        left = expires_at(job) - self.host.now
        if left > 0:
            self.queue.add_after(job.key, left)
        return left <= 0


def needs_cleanup(job: Job) -> bool:
    """Return whether the Job has finished and has a time to live."""
    return job.spec.ttl_seconds_after_finished is not None and any(
        map(_ends, job.status.conditions)
    )


def expires_at(job: Job) -> int:
    """Return the time at which a finished Job expires, in nanoseconds since the epoch. Raises Retry without an end
    time.
    """
    ended = next(filter(_ends, job.status.conditions)).last_transition_time
    if not ended:
        raise Retry(f"unable to find the time when the Job {job.key} finished")
    return ended + (job.spec.ttl_seconds_after_finished or 0) * SECOND


def _ends(condition: Any) -> bool:
    return condition.type in {"Complete", "Failed"} and condition.status == "True"
