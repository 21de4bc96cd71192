"""The integration of jobs in the process: a work queue per kind, and who asks for a reconcile.

Follows `SetupWithManager` of `pkg/controller/jobframework/reconciler.go` and `pkg/controller/jobs/pod`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from controlplane.api.times import SECOND
from controlplane.client.resources import JOBS, PODS, STATEFUL_SETS
from controlplane.controllers.common.controller import Work
from controlplane.kueue.controllers.observer import SILENT, Observer
from controlplane.kueue.jobs.ancestors import BUILT_IN, KNOWN, Surroundings, controller_of
from controlplane.kueue.jobs.batch import BatchJob
from controlplane.kueue.jobs.expectations import Expectations
from controlplane.kueue.jobs.generic import framework_of, resource_of
from controlplane.kueue.jobs.objects import annotations_of, pod_group_name
from controlplane.kueue.jobs.pod_jobs import GROUP_PREFIX, PodJob, pod_key
from controlplane.kueue.jobs.reconciler import JobController
from controlplane.kueue.jobs.stateful_sets import FRAMEWORK, StatefulSetController, owner_of_pod
from controlplane.kueue.names import IS_GROUP_WORKLOAD, MANAGED
from controlplane.kueue.process.kinds import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import Any

    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Host, Queue
    from controlplane.kueue.controllers.effects import Done
    from controlplane.kueue.jobs.generic import GenericJob
    from controlplane.kueue.jobs.kinds import ManagedJob
    from controlplane.kueue.process.carrying import Carried
    from controlplane.kueue.process.reader import CacheReader
    from controlplane.kueue.process.settings import Settings
    from controlplane.kueue.process.wiring import Changed

    Carry = Callable[[Queue, str, Generator[Any, Any, Done]], Carried[None]]

BATCH: Final = "kueue-job"
POD: Final = "kueue-pod"
BATCH_JOB: Final = "batch/job"
PLAIN_POD: Final = "pod"
STATEFUL_SET: Final = "kueue-statefulset"
MEMBER: Final = "kueue-statefulset-pod"
BATCH_PERIOD: Final = SECOND
"""New pods of a StatefulSet lead to one reconcile after this time."""


WATCHED: Final[dict[str, tuple[str, ...]]] = {
    "batch/job": ("Job",),
    "pod": ("Pod", "Job", "Deployment", "ReplicaSet", "StatefulSet"),
}
"""The kinds that a framework reads, besides Kueue's own."""


def watched_for_jobs(settings: Settings) -> dict[str, None]:
    """The kinds to watch for the enabled frameworks."""
    kinds = [kind for name in settings.frameworks for kind in WATCHED.get(name, ())]
    kinds += [each.kind.kind for each in settings.custom]
    return dict.fromkeys((*kinds, "PriorityClass") if kinds else ())


def surroundings(
    settings: Settings, reader: CacheReader, has_default_queue: Callable[[str], bool]
) -> Surroundings:
    """The settings and readers of decisions about jobs."""
    built_in = {name: BUILT_IN[name] for name in settings.frameworks if name in BUILT_IN}
    custom = {framework_of(each.kind): each.kind for each in settings.custom}
    return Surroundings(
        reader,
        settings.gates,
        {**built_in, **custom},
        settings.all_jobs,
        settings.namespaces,
        has_default_queue,
        (*KNOWN, *custom.values()),
    )


class JobIntegration:
    """Queues and reconcilers of the integrated kinds.

    Args:
        host: The controller's host.
        reader: Informer caches.
        settings: Kueue's configuration.
        has_default_queue: Whether a namespace has a local queue `default`.
        carry: Carries a reconcile of a key of a queue out.
        observer: Metrics.
    """

    def __init__(
        self,
        host: Host,
        reader: CacheReader,
        settings: Settings,
        has_default_queue: Callable[[str], bool],
        carry: Carry,
        observer: Observer = SILENT,
    ) -> None:
        self._host = host
        self._settings = settings
        self._carry = carry
        self.around = surroundings(settings, reader, has_default_queue)
        self._reconciler = JobController(
            self.around,
            self._now,
            settings.pods_ready is not None,
            settings.deactivated_retention,
            observer,
        )
        self._stateful_sets = StatefulSetController(self.around, self._now, observer)
        self._expectations = Expectations()
        self._queues = {
            name: host.queue(queue)
            for name, queue in ((BATCH_JOB, BATCH), (PLAIN_POD, POD))
            if name in settings.frameworks
        }
        if FRAMEWORK in settings.frameworks:
            self._queues |= {name: host.queue(name) for name in (STATEFUL_SET, MEMBER)}
        self._custom = {framework_of(each.kind): each for each in settings.custom}
        self._queues |= {name: host.queue(_queue_of(each)) for name, each in self._custom.items()}

    def _now(self) -> int:
        return self._host.now

    def changes(self) -> Mapping[Resource[Any], Changed]:
        """Return the event handlers by resource."""
        found: dict[Resource[Any], Changed] = {}
        if self._queues:
            found[WORKLOADS] = self._workload
        if BATCH_JOB in self._queues:
            found[JOBS] = self._job
        if PLAIN_POD in self._queues:
            found[PODS] = self._pod
        if STATEFUL_SET in self._queues:
            found[STATEFUL_SETS] = self._stateful_set
        for name, each in self._custom.items():
            found[resource_of(each)] = partial(self._custom_job, name)
        return found

    def work(self) -> Sequence[Work]:
        """The queues and their reconciles."""
        workers = self._settings.workers
        rows = {
            BATCH_JOB: Work(BATCH, self._reconcile_job, workers=workers),
            PLAIN_POD: Work(POD, self._reconcile_pod, workers=workers),
            STATEFUL_SET: Work(STATEFUL_SET, self._reconcile_stateful_set, workers=1),
            MEMBER: Work(MEMBER, self._reconcile_member, workers=1),
        }
        for name, each in self._custom.items():
            reconcile = partial(self._reconcile_custom, name)
            rows[name] = Work(_queue_of(each), reconcile, workers=workers)
        return [rows[name] for name in self._queues]

    # -- changes -----------------------------------------------------------------------------------

    def _job(self, old: Tree | None, new: Tree | None) -> None:
        self._queues[BATCH_JOB].add(_key(new or old or {}))

    def _custom_job(self, framework: str, old: Tree | None, new: Tree | None) -> None:
        self._queues[framework].add(_key(new or old or {}))

    def _stateful_set(self, old: Tree | None, new: Tree | None) -> None:
        tree = new or old or {}
        if self._stateful_sets.is_managed(tree):
            self._queues[STATEFUL_SET].add(_key(tree))

    def _pod(self, old: Tree | None, new: Tree | None) -> None:
        pod = new or old or {}
        if MEMBER in self._queues and new is not None:
            if owner := owner_of_pod(new):
                self._queues[MEMBER].add(_key(new))
                if old is None:
                    key = f"{new['metadata'].get('namespace', '')}/{owner}"
                    self._queues[STATEFUL_SET].add_after(key, BATCH_PERIOD)
        group = pod_group_name(pod, self._settings.gates)
        if group and (new is None or MANAGED not in (pod["metadata"].get("finalizers") or ())):
            uid = pod["metadata"].get("uid", "")
            self._expectations.observed((pod["metadata"].get("namespace", ""), group), uid)
        namespace, name = pod_key(pod, self._settings.gates)
        self._queues[PLAIN_POD].add(f"{namespace}/{name}")

    def _workload(self, old: Tree | None, new: Tree | None) -> None:
        """The job that a Workload belongs to is reconciled."""
        workload = new or old or {}
        metadata = workload["metadata"]
        namespace = metadata.get("namespace", "")
        group = f"{GROUP_PREFIX}{namespace}/{metadata['name']}"
        of_group = annotations_of(workload).get(IS_GROUP_WORKLOAD) == "true"
        owner = controller_of(workload)
        kind = ("", "") if owner is None else (owner["kind"], owner["apiVersion"].split("/")[0])
        if BATCH_JOB in self._queues and owner is not None and kind == ("Job", "batch"):
            self._queues[BATCH_JOB].add(f"{namespace}/{owner['name']}")
        for name, each in self._custom.items():
            if owner is not None and kind == (each.kind.kind, each.kind.group):
                self._queues[name].add(f"{namespace}/{owner['name']}")
        if PLAIN_POD not in self._queues:
            return
        if new is None and not of_group:
            if self._settings.gates.enabled("PodIntegrationValidateGroupOwner"):
                # A single pod's Workload of this name blocks the Workload of the group.
                self._queues[PLAIN_POD].add(group)
        if of_group and metadata.get("ownerReferences"):
            self._queues[PLAIN_POD].add(group)
        elif owner is not None and kind == ("Pod", "v1"):
            self._queues[PLAIN_POD].add(f"{namespace}/{owner['name']}")

    # -- reconciles --------------------------------------------------------------------------------

    def _reconcile_job(self, key: str) -> Carried[None]:
        job = BatchJob(self.around, self._host.now)
        yield from self._reconcile(BATCH_JOB, key, job)

    def _reconcile_custom(self, framework: str, key: str) -> Carried[None]:
        job = self._custom[framework](self.around, self._host.now)
        yield from self._reconcile(framework, key, job)

    def _reconcile_pod(self, key: str) -> Carried[None]:
        pod = PodJob(
            self.around,
            self._host.now,
            expectations=self._expectations,
            implicit=self._settings.implied_pods,
        )
        yield from self._reconcile(PLAIN_POD, key, pod)

    def _reconcile_stateful_set(self, key: str) -> Carried[None]:
        namespace, _, name = key.rpartition("/")
        reconcile = self._stateful_sets.reconcile(namespace, name)
        yield from self._carry(self._queues[STATEFUL_SET], key, reconcile)

    def _reconcile_member(self, key: str) -> Carried[None]:
        namespace, _, name = key.rpartition("/")
        reconcile = self._stateful_sets.reconcile_pod(namespace, name)
        yield from self._carry(self._queues[MEMBER], key, reconcile)

    def _reconcile(self, framework: str, key: str, job: ManagedJob) -> Carried[None]:
        namespace, _, name = key.rpartition("/")
        reconcile = self._reconciler.reconcile(job, namespace, name)
        yield from self._carry(self._queues[framework], key, reconcile)


def _queue_of(custom: type[GenericJob]) -> str:
    return f"kueue-{custom.kind.kind.lower()}"


def _key(tree: Tree) -> str:
    metadata = tree["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"
