"""The mimicked jobs of Kueue's scalability test: a process that finishes workloads and frees the quota of evicted ones.

It also keeps the measurements: waits and evictions by class of workloads, usage by class of queues.
Upstream: kueue test/performance/scheduler, runner/controller and runner/recorder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from controlplane.api.times import parse_time
from controlplane.controllers.common.controller import Controller, Handlers, Work, ignore
from controlplane.kueue.amounts import quota_amount
from controlplane.kueue.controllers.effects import ApplyStatus
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ADMISSION_MANAGER
from controlplane.kueue.process.carrying import call_of
from controlplane.kueue.process.kinds import CLUSTER_QUEUES, WORKLOADS
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_patch import admission_patch, base_patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.controllers.common.effects import Reconcile

__all__ = ["CLASS", "RUNTIME", "Class", "Figures", "QueueClass", "mimic_of"]

CLASS: Final = "kueue.x-k8s.io/performance-scheduler-class"
RUNTIME: Final = "kueue.x-k8s.io/performance-scheduler-running-ms"
JOBS: Final = "kueue-mimicked-jobs"
MANAGER: Final = "kueue-job-controller"
MS: Final = 1_000_000


@define
class Class:
    """Figures of a class of workloads; times are milliseconds."""

    count: int = 0
    waited_ms: int = 0
    finished: int = 0
    evictions: int = 0

    @property
    def mean_wait_ms(self) -> float:
        """The mean time from creation to the last admission."""
        return self.waited_ms / self.count if self.count else 0.0


@define
class QueueClass:
    """Figures of a class of queues: milli CPUs, and milli CPU milliseconds."""

    quota: int = 0
    used: int = 0
    first_ns: int = 0
    last_ns: int = 0

    @property
    def usage(self) -> float:
        """Per cent of the nominal quota that was in use between the first event and the last."""
        elapsed = (self.last_ns - self.first_ns) / MS
        return 100 * self.used / (self.quota * elapsed) if self.quota and elapsed else 0.0


@define
class _Queue:
    usage: int = 0
    since_ns: int = 0


@define
class _Seen:
    admitted: bool = False
    evicted: bool = False
    finished: bool = False
    wait_ms: int = 0


@define
class Figures:
    """Everything that was measured."""

    workloads: dict[str, Class] = field(factory=dict)
    queues: dict[str, QueueClass] = field(factory=dict)
    finished: int = 0
    cycles: int = 0
    _of_queue: dict[str, _Queue] = field(factory=dict)
    _seen: dict[str, _Seen] = field(factory=dict)

    def workload(self, tree: Tree, now: int) -> None:
        """A workload changed."""
        name = tree["metadata"]["labels"][CLASS]
        found = self.workloads.setdefault(name, Class())
        seen = self._seen.get(tree["metadata"]["uid"])
        if seen is None:
            seen = self._seen[tree["metadata"]["uid"]] = _Seen()
            found.count += 1
        admitted, evicted = status.is_admitted(tree), status.is_evicted(tree)
        finished = status.is_finished(tree)
        if admitted and not seen.admitted:
            wait = (now - parse_time(tree["metadata"]["creationTimestamp"])) // MS
            found.waited_ms += wait - seen.wait_ms
            seen.wait_ms = wait
        found.evictions += evicted and not seen.evicted
        if finished and not seen.finished:
            found.finished += 1
            self.finished += 1
        seen.admitted, seen.evicted, seen.finished = admitted, evicted, finished

    def queue(self, tree: Tree, now: int) -> None:
        """A ClusterQueue changed: its usage until now was that of its last status."""
        name = tree["metadata"]["labels"][CLASS]
        group = self.queues.get(name)
        if group is None:
            group = self.queues[name] = QueueClass(first_ns=now)
        known = self._of_queue.get(tree["metadata"]["name"])
        if known is None:
            known = self._of_queue[tree["metadata"]["name"]] = _Queue(since_ns=now)
            quota = tree["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]
            group.quota += quota_amount("cpu", str(quota))
        group.used += known.usage * ((now - known.since_ns) // MS)
        known.since_ns, known.usage = now, 0
        for flavor in (tree.get("status") or {}).get("flavorsUsage") or ():
            for each in flavor["resources"]:
                known.usage += quota_amount("cpu", str(each["total"]))
        group.last_ns = max(group.last_ns, now)


class Mimic(Controller):
    """The process; `figures` receives the measurements."""

    name = "mimic"
    figures = Figures()

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self._store = caches.of(WORKLOADS)
        caches.of(CLUSTER_QUEUES)
        self._queue = host.queue(JOBS)
        self._since: dict[str, int] = {}

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Workloads are followed, and queues measured."""
        return {
            WORKLOADS: Handlers(self._workload, lambda _, new: self._workload(new), ignore),
            CLUSTER_QUEUES: Handlers(self._measure, lambda _, new: self._measure(new), ignore),
        }

    def _measure(self, obj: Object[Any]) -> None:
        self.figures.queue(obj.tree, self.host.now)

    def _workload(self, obj: Object[Any]) -> None:
        tree, now = obj.tree, self.host.now
        self.figures.workload(tree, now)
        if status.is_admitted(tree):
            self._since.setdefault(obj.uid, now)
            if not status.is_finished(tree):
                self._queue.add(obj.key)
        else:
            self._since.pop(obj.uid, None)

    def work(self) -> Sequence[Work]:
        """One worker, as upstream's."""
        return (Work(JOBS, self._reconcile, workers=1),)

    def _reconcile(self, key: str) -> Reconcile[None]:
        obj = self._store.get(key)
        if obj is None or status.is_finished(obj.tree):
            return
        tree, now = obj.tree, self.host.now
        if status.is_evicted(tree):
            if status.has_quota_reservation(tree):
                copy = status.working_copy(tree)
                text = "Evicted by the test runner"
                status.unset_quota_reservation(copy, "Pending", text, now, Gates())
                yield from _apply(admission_patch(copy), ADMISSION_MANAGER)
            return
        if not status.is_admitted(tree):
            return
        runtime = int(tree["metadata"]["labels"][RUNTIME]) * MS
        left = self._since.get(obj.uid, now) + runtime - now
        if left > 0:
            self._queue.add_after(key, left)
            return
        body = base_patch(tree, strict=True)
        ended = status.condition(tree, status.FINISHED, "ByTest", "By test runner", now)
        yield from _apply({**body, "status": {"conditions": [ended]}}, MANAGER)


def _apply(body: Tree, manager: str) -> Reconcile[None]:
    call = call_of(ApplyStatus("Workload", body, manager))
    assert call is not None
    yield call


def mimic_of(figures: Figures) -> type[Mimic]:
    """Return the process that leaves its measurements there."""
    return type("Mimic", (Mimic,), {"figures": figures})
