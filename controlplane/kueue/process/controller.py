"""Kueue as a process: its caches, its reconcilers' work queues, its scheduler, its timers.

Every reconciler of upstream is a work queue here; so are the scheduler (one key), the requests to try inadmissible
workloads again (collected for a second, one worker) and the timers of the second pass.

Points: those of `controllers.loops.worker` for each queue, those of `kueue.scheduler`, and one for every request.
Follows `cmd/kueue/main.go`.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND
from controlplane.controllers.common.controller import Controller, Handlers, Work
from controlplane.kueue.cache.cache import Cache
from controlplane.kueue.controllers.effects import Done
from controlplane.kueue.controllers.flavor_objects import (
    AdmissionCheckController,
    ResourceFlavorController,
)
from controlplane.kueue.controllers.past_usage import PastUsage
from controlplane.kueue.controllers.queue_objects import (
    ClusterQueueController,
    CohortController,
    LocalQueueController,
)
from controlplane.kueue.controllers.workload import WorkloadController
from controlplane.kueue.controllers.workload_events import NO_PENALTIES, WorkloadEvents
from controlplane.kueue.metrics.gauges import Gauges
from controlplane.kueue.metrics.recorder import ControllerMetrics, Recorder, SchedulerMetrics
from controlplane.kueue.names import DEFAULT_LOCAL_QUEUE
from controlplane.kueue.preemption.candidates import Rules as PreemptionRules
from controlplane.kueue.preemption.expectations import Expectations
from controlplane.kueue.process.carrying import Carrier
from controlplane.kueue.process.elastic_jobs import ElasticJobs
from controlplane.kueue.process.jobs import JobIntegration, watched_for_jobs
from controlplane.kueue.process.kinds import KINDS, kinds_with
from controlplane.kueue.process.leading import Leadership
from controlplane.kueue.process.priorities import PriorityClasses
from controlplane.kueue.process.provisioning import WATCHED as WATCHED_FOR_PROVISIONING
from controlplane.kueue.process.provisioning import Provisioning
from controlplane.kueue.process.reader import CacheReader
from controlplane.kueue.process.scheduling import SCHEDULER, SchedulerTask
from controlplane.kueue.process.settings import Settings
from controlplane.kueue.process.topologies import PlacementControllers, TopologyReconciler
from controlplane.kueue.process.wiring import Controllers, Queues, Wiring
from controlplane.kueue.queues.cluster_queue import Rules
from controlplane.kueue.queues.manager import FlushRequest, ManagerOptions, QueueManager
from controlplane.kueue.queues.visibility import pending_workloads
from controlplane.kueue.scheduler.scheduler import Scheduler, SchedulerOptions
from controlplane.kueue.topology.cache import TopologyCache

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from controlplane.api.aggregated_groups import Refused
    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host, Queue
    from controlplane.kueue.process.carrying import Carried
    from controlplane.metrics.family import Family

FLUSH: Final = "kueue-requeue"
AGAIN: Final = "kueue-second-pass"
FREED: Final = "kueue-freed-nodes"
START: Final = "kueue-start"
TOPOLOGY_FLAVORS: Final = "kueue-tas-flavor"
BATCH: Final = SECOND
"""The time for which requests for a flush are collected."""
WATCHED: Final = (
    "Workload", "ClusterQueue", "LocalQueue", "Cohort", "ResourceFlavor", "AdmissionCheck",
    "WorkloadPriorityClass", "Namespace", "LimitRange", "RuntimeClass",
)  # fmt: skip
WATCHED_FOR_TOPOLOGY: Final = ("Topology", "Node", "Pod")


class Kueue(Controller):
    """One Kueue process."""

    name = "kueue"
    component = "kueue-admission"
    client_rate_by_kind = True
    settings = Settings()
    provisioning = False
    """The server has ProvisioningRequests: the admission check that makes them is there."""

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        if self.replicas > 1:
            self.settings = deepcopy(self.settings)  # replicas share nothing
        settings, gates = self.settings, self.settings.gates
        with_topology = gates.enabled("TopologyAwareScheduling")
        elastic = _has_elastic_jobs(settings)
        watched = dict.fromkeys(WATCHED)
        if with_topology:
            watched |= dict.fromkeys(WATCHED_FOR_TOPOLOGY)
        if elastic:
            watched |= {"Pod": None}
        if self.provisioning:
            watched |= dict.fromkeys(WATCHED_FOR_PROVISIONING)
        watched |= watched_for_jobs(settings)
        self._kinds = kinds_with(settings.custom)
        self.reader = CacheReader(caches, watched, self._kinds)
        self.topologies = TopologyCache(gates) if with_topology else None
        self.cache = Cache(
            gates,
            settings.requests,
            fair_sharing=settings.strategies is not None,
            topologies=self.topologies,
            track_pods_ready=settings.pods_ready is not None
            and settings.pods_ready.block_admission,
            fixes=host.fixes,
        )
        self.expectations = Expectations()
        self.manager = QueueManager(
            ManagerOptions(
                Rules(gates, settings.by_eviction, host.fixes), settings.requests, settings.sharing
            ),
            self.reader,
            self,
            self.clock,
            self.cache.cluster_queue_active,
        )
        lease = self.election.lease_ns if self.replicas > 1 and self.election else None
        self.leadership = Leadership(host, self.reader, caches, lease)
        role = self._role
        self.recorder = Recorder(self.cache, gates, settings.metrics, role)
        self._gauges = Gauges(self.cache, self.manager, self.reader, gates, settings.metrics, role)
        self._held: list[Callable[[], None]] | None = []
        self._flushes: dict[str, FlushRequest] = {}
        self._waits: dict[str, tuple[Tree, int]] = {}
        self._wait_count = 0
        self._carrier = Carrier(host, self.wake, self._kinds)
        self._queues = self._work_queues()
        self._make_controllers()
        self._scheduler = self._make_scheduler()

    def clock(self) -> int:
        """The present time, nanoseconds."""
        return self.host.now

    def elected(self) -> None:
        """Lead from now on: the scheduler runs, and jobs are reconciled."""
        self.leadership.elected()
        self.wake()

    def _role(self) -> str:
        return self.leadership.role

    def families(self) -> Iterator[Family]:
        """Kueue's metrics: what was counted, and what is there now."""
        yield from self.recorder.families()
        yield from self._gauges.families()

    def answer(self, request: Tree) -> Tree | Refused:
        """Return a queue's pending workloads."""
        return pending_workloads(self.manager, request)

    def _has_default_queue(self, namespace: str) -> bool:
        return self.manager.has_local_queue(f"{namespace}/{DEFAULT_LOCAL_QUEUE}")

    # -- parts -------------------------------------------------------------------------------------

    def _work_queues(self) -> Queues:
        host = self.host
        self._start_queue = host.queue(START)
        self._flush_queue = host.queue(FLUSH)
        self._second_pass_queue = host.queue(AGAIN)
        self._freed_queue = host.queue(FREED)
        self._topology_flavor_queue = host.queue(TOPOLOGY_FLAVORS)
        return Queues(
            workloads=host.queue("kueue-workload"),
            cluster_queues=host.queue("kueue-clusterqueue"),
            local_queues=host.queue("kueue-localqueue"),
            cohorts=host.queue("kueue-cohort"),
            flavors=host.queue("kueue-resourceflavor"),
            checks=host.queue("kueue-admissioncheck"),
            topologies=host.queue("kueue-topology"),
            topology_flavors=self._topology_flavor_queue,
            freed_nodes=self._freed_queue,
        )

    def _make_controllers(self) -> None:
        reader, cache, settings = self.reader, self.cache, self.settings
        observer = ControllerMetrics(self.recorder)
        manager: Any = self.manager  # its answers are more than the reconcilers ask for
        workloads = WorkloadController(
            reader,
            manager,
            cache,
            self.clock,
            settings.gates,
            settings.pods_ready,
            settings.retention,
            observer=observer,
        )
        self._workloads = workloads
        parts = (reader, manager, cache, self.clock)
        past = self._past_usage()
        self._cluster_queues = ClusterQueueController(*parts, observer=observer)
        self._local_queues = LocalQueueController(
            *parts, sharing=None if past is None else past.sample, observer=observer
        )
        self._cohorts = CohortController(reader, manager, cache)
        self._flavors = ResourceFlavorController(reader, manager, cache)
        self._checks = AdmissionCheckController(reader, manager, cache)
        jobs = JobIntegration(
            self.host, reader, settings, self._has_default_queue, self._reconcile, observer
        )
        leading = self.leadership
        classes = PriorityClasses(self.host, reader, self._reconcile)
        parts_of_host = (self.host, reader, settings.gates, settings.workers, self._reconcile)
        self._part_work = [*jobs.work()]
        self._part_work += [leading.aware("WorkloadPriorityClass", each) for each in classes.work()]
        changes = [leading.only_when_leading(jobs.changes()), classes.changes()]
        if self.topologies is not None:
            placement = PlacementControllers(*parts_of_host)
            self._part_work += [
                leading.aware(kind, each)
                for kind, each in zip(("Workload", "Node"), placement.work(), strict=True)
            ]
            changes.append(placement.changes())
        if _has_elastic_jobs(settings):
            elastic = ElasticJobs(*parts_of_host)
            self._part_work += [leading.aware("Workload", each) for each in elastic.work()]
            changes.append(elastic.changes())
        if self.provisioning:
            checks = Provisioning(*parts_of_host)
            self._part_work += checks.work()
            changes.append(leading.only_when_leading(checks.changes()))
        self._topologies = TopologyReconciler(reader, self.topologies)
        self._wiring = Wiring(
            reader,
            manager,
            cache,
            self.topologies,
            self._queues,
            Controllers(
                workloads,
                WorkloadEvents(workloads, self.expectations, past or NO_PENALTIES, self.host.fixes),
                self._cluster_queues,
                self._local_queues,
                self._flavors,
                self._checks,
            ),
            self.wake,
            [
                *changes,
                *([] if past is None else [{KINDS["LocalQueue"]: past.local_queue_changed}]),
            ],
        )

    def _past_usage(self) -> PastUsage | None:
        """Sampling of past usage, if fair sharing of admission is configured."""
        sharing = self.settings.sharing
        if sharing is None or not self.settings.gates.enabled("AdmissionFairSharing"):
            return None
        return PastUsage(self.manager.ledger, self.cache, sharing, self.manager.reorder)

    def _make_scheduler(self) -> SchedulerTask:
        settings = self.settings
        rules = PreemptionRules(settings.gates, settings.strategies, settings.by_eviction)
        self.scheduler = Scheduler(
            self.manager,
            self.cache,
            self.reader,
            self.clock,
            SchedulerOptions(
                rules,
                settings.quota_check,
                settings.sharing,
                self.host.fixes,
                chooses_orders=True,
            ),
            self.expectations,
            SchedulerMetrics(self.recorder),
            self._wiring.count_again,
        )
        return SchedulerTask(self.host, self.manager, self.scheduler.cycle, self._carrier)

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Handlers of changes, by resource."""
        return {
            resource: Handlers(*(self._once_synced(each) for each in handlers))
            for resource, handlers in self._wiring.handlers().items()
        }

    def _once_synced(self, handler: Callable[..., None]) -> Callable[..., None]:
        """A handler that waits until all informers have listed: workers run from then on.

        A handler looks at other kinds, too: the Workloads of a new LocalQueue are entered with it. Upstream such
        a look blocks until the informer has listed.
        """

        def told(*change: Any) -> None:
            if self._held is None:
                handler(*change)
            else:
                self._held.append(partial(handler, *change))
                self._start_queue.add(START)

        return told

    def _start(self, _key: str) -> Carried[None]:
        """Tell the handlers of what was heard until now, in that order."""
        held, self._held = self._held or [], None
        for call in held:
            call()
        return
        yield

    def defined_later(self) -> Sequence[Resource[Any]]:
        """Return the resources of a user's jobs."""
        return [self._kinds[each.kind.kind] for each in self.settings.custom]

    @classmethod
    def goes_on(cls) -> tuple[str, ...]:
        """Name the samples of past usage."""
        if cls.settings.sharing is None:
            return ()
        interval = round(cls.settings.sharing.sampling_interval * SECOND)
        return (f"samples of Kueue's usage by local queue every {interval // SECOND} s",)

    def work(self) -> Sequence[Work]:
        """The queues: reconcilers, the scheduler, flushes, timers."""
        many, leading = self.settings.workers, self.leadership
        plain = (
            ("kueue-clusterqueue", "ClusterQueue", self._cluster_queues.reconcile),
            ("kueue-cohort", "Cohort", self._cohorts.reconcile),
            ("kueue-resourceflavor", "ResourceFlavor", self._flavors.reconcile),
            ("kueue-admissioncheck", "AdmissionCheck", self._checks.reconcile),
            ("kueue-topology", "Topology", self._topologies.reconcile),
        )
        flavors = Work(TOPOLOGY_FLAVORS, self._topology_flavor, workers=1)
        workloads = Work("kueue-workload", self._reconcile_workload, workers=many)
        local_queues = Work("kueue-localqueue", self._reconcile_local_queue, workers=1)
        return (
            Work(START, self._start, workers=1, on_followers=True),
            Work(SCHEDULER, self._scheduler.run, workers=1),
            Work(FLUSH, self._flush, workers=1),
            Work(AGAIN, self._second_pass_due, workers=1, on_followers=True),
            Work(FREED, self._freed, workers=1, on_followers=True),
            leading.aware("ResourceFlavor", flavors),
            leading.aware("Workload", workloads),
            leading.aware("LocalQueue", local_queues),
            *self._part_work,
            *(
                leading.aware(kind, Work(name, self._plain(name, of), workers=1))
                for name, kind, of in plain
            ),
        )

    # -- reconciles --------------------------------------------------------------------------------

    def _plain(
        self, name: str, reconcile: Callable[[str], Generator[Any, Any, Done]]
    ) -> Callable[[str], Carried[None]]:
        """A queue of cluster-scoped objects: its reconcile, carried out."""
        queue = self.host.queue(name)

        def run(key: str) -> Carried[None]:
            yield from self._reconcile(queue, key, reconcile(key))

        return run

    def _reconcile_workload(self, key: str) -> Carried[None]:
        namespace, name = key.split("/", 1)
        if not self.host.fixes.fixed("kq10518") and not self.reader.get(
            "Workload", namespace, name
        ):
            self._wiring.controllers.events.forget(key)
        reconcile = self._workloads.reconcile(namespace, name)
        yield from self._reconcile(self._queues.workloads, key, reconcile)

    def _reconcile_local_queue(self, key: str) -> Carried[None]:
        reconcile = self._local_queues.reconcile(*key.split("/", 1))
        yield from self._reconcile(self._queues.local_queues, key, reconcile, idle=True)

    def _reconcile(
        self, queue: Queue, key: str, reconcile: Generator[Any, Any, Done], *, idle: bool = False
    ) -> Carried[None]:
        """Carry a reconcile out; the next one that it asks for is an idle delay if it only samples."""
        done = yield from self._carrier.run(reconcile)
        if done.requeue_after:
            queue.forget(key)
            queue.add_after(key, done.requeue_after, idle=idle)
        else:
            queue.relax(key)  # a delay that is left over leads to nothing
        self.wake()

    # -- what the queue manager asks for -----------------------------------------------------------

    def wake(self) -> None:
        """Let the scheduler look at its heads."""
        self._scheduler.wake()

    def flush_later(self, request: FlushRequest) -> None:
        """Try the inadmissible workloads of a tree again, a second after the first request."""
        key = f"{request.cluster_queue}/{request.cohort}"
        self._flushes[key] = request
        self._flush_queue.add_after(key, BATCH)

    def second_pass_later(self, after: int, workload: Tree, iteration: int) -> None:
        """Hand a workload to the scheduler again after a while."""
        self._wait_count += 1
        key = str(self._wait_count)
        self._waits[key] = workload, iteration
        self._second_pass_queue.add_after(key, after)

    def evicted_or_gone(self, key: str, uid: str) -> None:
        """A pending workload was seen: an expected preemption has happened."""
        self.expectations.observed(key, uid)

    def _flush(self, key: str) -> Carried[None]:
        self.manager.flush(self._flushes[key])
        return
        yield

    def _second_pass_due(self, key: str) -> Carried[None]:
        self.manager.second_pass_due(*self._waits.pop(key))
        return
        yield

    # -- topologies --------------------------------------------------------------------------------

    def _freed(self, node: str) -> Carried[None]:
        """Pods gave room on a node back: its flavors' queues may admit."""
        tree = self.reader.get("Node", "", node)
        if tree is not None and self.topologies is not None:
            names: dict[str, None] = {}
            for flavor in self.topologies.flavors_of_nodes(tree):
                names.update(dict.fromkeys(self.cache.cluster_queues_using_flavor(flavor)))
            self.manager.notify(sorted(names))
        return
        yield

    def _topology_flavor(self, name: str) -> Carried[None]:
        """A flavor with a topology, or its nodes, changed: all active queues try again."""
        flavor = self.reader.get("ResourceFlavor", "", name)
        if flavor is not None and (flavor.get("spec") or {}).get("topologyName"):
            active = self.cache.cluster_queue_active
            self.manager.notify(each for each in self.manager.cluster_queues() if active(each))
        return
        yield


def _has_elastic_jobs(settings: Settings) -> bool:
    return "batch/job" in settings.frameworks and settings.gates.enabled(
        "ElasticJobsViaWorkloadSlices"
    )


def kueue_of(
    settings: Settings, *, answers: bool = False, provisioning: bool = False, replicas: int = 1
) -> type[Kueue]:
    """Return Kueue with these settings, as a process of a cluster (`ClusterConfig.own_controllers`).

    Args:
        settings: its configuration.
        answers: it answers requests for its visibility API (`queues.visibility.group`).
        provisioning: it has the admission check of ProvisioningRequests; the server must have their definition.
        replicas: the number of its processes, of which one leads.
    """
    fields = {
        "settings": settings,
        "answers": answers,
        "provisioning": provisioning,
        "replicas": replicas,
        "election": settings.election if replicas > 1 else None,
        "warm": replicas > 1,
    }
    return type("Kueue", (Kueue,), fields)
