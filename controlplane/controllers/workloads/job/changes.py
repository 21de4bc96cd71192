"""Changes that Jobs and their pods tell of: what they ask for, and what they mean for the expectations.

Upstream: the handlers of pkg/controller/job/job_controller.go. Requests that come from pods and from status changes
are batched for a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.labels import from_label_selector
from controlplane.api.times import SECOND
from controlplane.controllers.common.controller import Handlers
from controlplane.controllers.common.owners import Owners
from controlplane.controllers.common.ownership import controller_of
from controlplane.controllers.common.ref_manager import controller_keys
from controlplane.controllers.workloads.job import pods as jobpods

if TYPE_CHECKING:
    from controlplane.api.batch import Job
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.expectations import CountedExpectations
    from controlplane.client.indexer import Indexer
    from controlplane.controllers.common.controller import Host, Queue
    from controlplane.controllers.workloads.job.tracking import FinalizerExpectations

BATCH_PERIOD_NS: Final = SECOND
PODS_RELEASED: Final = "109429"
"""Gate: once a Job ended or is gone, the finalizers of all its pods go, not only of those heard of afterwards."""


class JobChanges:
    """The handlers of changes of Jobs and of their pods."""

    def __init__(
        self,
        host: Host,
        pods: Indexer[Pod],
        jobs: Indexer[Job],
        queue: Queue,
        orphans: Queue,
        expectations: CountedExpectations,
        removals: FinalizerExpectations,
    ) -> None:
        self._host = host
        self._pods = pods
        self._queue = queue
        self._orphans = orphans
        self._expectations = expectations
        self._removals = removals
        self.owners = Owners("Job", jobs, self._soon)

    def of_pods(self) -> Handlers:
        """Return the handlers of changes of pods."""
        return Handlers(self._pod_added, self._pod_updated, self._pod_deleted)

    def added(self, obj: Object[Job]) -> None:
        """A Job came."""
        self._queue.add(obj.key)

    def updated(self, old: Object[Job], new: Object[Job]) -> None:
        """A Job changed; one with a new deadline is looked at again then."""
        before, job = old.view, new.view
        if before.metadata.generation == job.metadata.generation:
            self._soon(new.key)
        else:
            self._queue.add(new.key)
        if jobpods.is_finished(job):
            self._release_pods(job)
        allowed = job.spec.active_deadline_seconds
        since = job.status.start_time
        if since is not None and allowed not in (None, before.spec.active_deadline_seconds):
            self._queue.add_after(new.key, since + (allowed or 0) * SECOND - self._host.now)

    def deleted(self, obj: Object[Job]) -> None:
        """A Job is gone."""
        self._queue.add(obj.key)
        self._release_pods(obj.view)

    def _release_pods(self, job: Job) -> None:
        """Have the finalizers of a Job's pods removed that no turn of the Job will remove."""
        if not self._host.fixes.fixed(PODS_RELEASED):
            return
        matcher = from_label_selector(job.spec.selector)
        for obj in self._pods.by_index("controller", controller_keys(job)[0]):
            pod = obj.view
            if jobpods.is_tracked(pod) and matcher.matches(pod.labels):
                self._orphans.add(obj.key)

    def _soon(self, key: str) -> None:
        self._queue.add_after(key, BATCH_PERIOD_NS)

    def _orphaned(self, pod: Pod, *, adoptable: bool) -> None:
        """Remove the finalizer of a pod without a controller, and queue the Jobs that may adopt it."""
        if jobpods.is_tracked(pod):
            self._orphans.add(pod.key)
        if adoptable:
            self.owners.ask_adopters(pod)

    def _pod_added(self, obj: Object[Pod]) -> None:
        pod = obj.view
        if pod.metadata.deletion_timestamp is not None:
            self._pod_leaves(pod, gone=False)
            return
        if controller_of(pod) is None:
            self._orphaned(pod, adoptable=True)
        elif (owner := self.owners.of(pod)) is not None:
            self._expectations.creation_observed(owner.key)
            self._soon(owner.key)

    def _pod_updated(self, old: Object[Pod], new: Object[Pod]) -> None:
        if old.resource_version == new.resource_version:
            return
        before, pod = old.view, new.view
        if pod.metadata.deletion_timestamp is not None:
            self._pod_leaves(pod, gone=False)
            return
        former, reference = controller_of(before), controller_of(pod)
        for named in (former, reference) if former != reference else (reference,):
            owner = self.owners.resolve(pod.namespace, named)
            if owner is None:
                continue
            if not jobpods.is_tracked(pod):
                self._removals.removal_observed(owner.key, pod.uid)
            self._soon(owner.key)
        if reference is None:
            changed = before.labels != pod.labels or former != reference
            self._orphaned(pod, adoptable=changed)

    def _pod_deleted(self, obj: Object[Pod], _unknown: bool) -> None:
        self._pod_leaves(obj.view, gone=True)

    def _pod_leaves(self, pod: Pod, *, gone: bool) -> None:
        """A pod is being deleted, or is gone."""
        tracked = jobpods.is_tracked(pod)
        owner = self.owners.of(pod)
        if owner is None or jobpods.is_finished(owner.view):
            if tracked:
                self._orphans.add(pod.key)
            return
        self._expectations.deletion_observed(owner.key)
        if gone or not tracked:
            self._removals.removal_observed(owner.key, pod.uid)
        self._soon(owner.key)
