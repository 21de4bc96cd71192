"""The scheduler's memory and the calls an actor makes on it.

Upstream: `pkg/scheduler/scheduler.go`. See `cycle`, `binding` and `failure` for the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from controlplane.api.resize_policy import as_promised
from controlplane.api.times import SECOND
from controlplane.decisions import Steps
from controlplane.gates import FixGates
from controlplane.scheduler.config.features import defaults
from controlplane.scheduler.config.model import SchedulerConfig
from controlplane.scheduler.cycle.attempt import Attempt, Failure, SchedulingError
from controlplane.scheduler.cycle.scheduling import Search, schedule
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework.api_calls import CallQueue
from controlplane.scheduler.framework.custom import NO_OBJECTS, CustomObjects
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.deferred_resize import args_of
from controlplane.scheduler.framework.handle import Handle, keep_order
from controlplane.scheduler.framework.interface import Code, Plugin
from controlplane.scheduler.framework.names import DEFERRED_POD_SCHEDULING
from controlplane.scheduler.framework.runtime import Framework
from controlplane.scheduler.framework.writes import EventIntent
from controlplane.scheduler.plugins.default_preemption import (
    DefaultPreemption,
    preemption_plugin,
)
from controlplane.scheduler.plugins.registry import Registry, build_framework
from controlplane.scheduler.queue.scheduling_queue import PriorityQueue, QueueOptions
from controlplane.scheduler.state.cache import Cache, SnapshotError
from controlplane.scheduler.state.listers import Listers

if TYPE_CHECKING:
    from controlplane.api.device_selection import SelectDevice
    from controlplane.api.pod import Pod
    from controlplane.api.usage import UsageSource
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.framework.preemption_task import PreemptionTask
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo


@attrs.frozen
class Skipped:
    """A popped pod that needs no attempt; its flight has ended. `event` may be None."""

    info: QueuedPodInfo
    reason: str
    event: EventIntent | None = None


def _unchecked() -> None:
    """Do nothing: the default where no race detector listens."""


def _as_it_is(pod: Pod) -> Pod:
    return pod


class Scheduler:
    """Queue, cache, snapshot and profiles."""

    def __init__(
        self,
        listers: Listers,
        *,
        config: SchedulerConfig | None = None,
        features: Mapping[str, bool] | None = None,
        registry: Registry | None = None,
        choose_order: Callable[[str, list[Any]], list[Any]] = keep_order,
        choose_offset: Callable[[str, int], int] | None = None,
        log: Callable[[str], None] | None = None,
        fixes: FixGates | None = None,
        select: SelectDevice | None = None,
        clock: Callable[[], int] = lambda: 0,
        custom: CustomObjects = NO_OBJECTS,
        usage: UsageSource | None = None,
    ) -> None:
        """Raises ValueError when a profile cannot be built.

        `choose_order` and `choose_offset` answer what upstream leaves to map order or chance;
        `log` receives lines that upstream logs as errors; `select` answers selectors of devices;
        `clock` returns the time; `custom` has the objects of custom kinds that plugins read; `usage` tells the usage
        of pods.
        """
        self.config = config or SchedulerConfig()
        self.listers = listers
        self.features = {**defaults(), **(features or {})}
        self.log: Callable[[str], None] = log or (lambda _line: None)
        fixes = fixes or FixGates()
        self._done_when_skipped = fixes.fixed("126962")
        # Asked by the event handlers, and explained there.
        self.rejects_waiting = fixes.fixed("84578")
        self.ignores_resync = fixes.fixed("96071")
        self.cleans_both = fixes.fixed("106102")
        self.forgets_deleted = fixes.fixed("134157")
        self.rejects_bound = fixes.variant("134157") == "rechecked"
        self.splits_recreated = fixes.fixed("141255")
        self.counted: Callable[[Pod], Pod] = as_promised if fixes.fixed("135107") else _as_it_is
        """The form in which a pod on a node is shown to waiting pods: as the cache counts it."""
        self.changes_cache: Callable[[], None] = _unchecked
        """Called before an event handler changes the cache, for race detection."""
        self.schedules_groups = self.features["GenericWorkload"]
        """Pods with a scheduling group are scheduled together with their siblings."""
        self.tells_of_new_pods = self.features["GangScheduling"]
        """A new pod is an event for those that wait: it may complete their gang."""
        self.cache = Cache(fixes, groups=self.schedules_groups)
        self.api_calls = CallQueue() if self.features["SchedulerAsyncAPICalls"] else None
        """Asynchronous calls to the API server that wait or are under way (None: calls are synchronous)."""
        handle = Handle(
            listers=listers,
            features=self.features,
            fixes=fixes,
            choose_order=choose_order,
            custom=custom,
            usage=usage,
            profiles=tuple(profile.scheduler_name for profile in self.config.profiles),
        )
        if choose_offset is not None:
            handle.choose_offset = choose_offset
        handle.log, handle.clock = self.log, clock
        if select is not None:
            handle.dra.select = select
        handle.deferred = next(
            (
                args_of(each.args[DEFERRED_POD_SCHEDULING])
                for each in self.config.profiles
                if DEFERRED_POD_SCHEDULING in each.args
            ),
            handle.deferred,
        )
        if self.cache.pod_groups is not None:
            handle.pod_groups = self.cache.pod_groups
        self.handle = handle
        self.snapshot = handle.snapshot
        self.search = Search(handle.columns, self.config.percentage_of_nodes_to_score)
        self.frameworks: dict[str, Framework] = {
            profile.scheduler_name: build_framework(profile, handle, registry)
            for profile in self.config.profiles
        }
        self.all_plugins: tuple[Plugin, ...] = tuple(
            plugin for framework in self.frameworks.values() for plugin in framework.all_plugins
        )
        """The plugins of all profiles."""
        first = next(iter(self.frameworks.values()))
        sort = first.plugins.queue_sort[0]
        self.ordered_by: tuple[str, ...] = ("plugins",) if sort.custom else ()
        """The parts of memory besides the queue that its order depends on, for race detection."""
        self.queue = PriorityQueue(
            sort.less,
            listers.pods,
            hint_maps={name: f.queueing_hints() for name, f in self.frameworks.items()},
            pre_enqueue={name: f.plugins.pre_enqueue for name, f in self.frameworks.items()},
            options=QueueOptions(
                initial_backoff=self.config.pod_initial_backoff_seconds * SECOND,
                max_backoff=self.config.pod_max_backoff_seconds * SECOND,
                max_in_unschedulable=self.config.pod_max_in_unschedulable_pods_seconds * SECOND,
                hints_enabled=self.features["SchedulerQueueingHints"],
                pop_from_backoff=self.features["SchedulerPopFromBackoffQ"],
                groups=self.schedules_groups,
            ),
            choose_order=choose_order,
            signer=self._sign if self.features["OpportunisticBatching"] else None,
            fixes=fixes,
        )
        handle.nominated_pods = self.queue.nominated_pods_for_node
        handle.nominated_nodes = self.queue.nominated_nodes
        self._waiting: dict[str, Callable[[str], bool]] = {}
        self.evictions: list[PreemptionTask] = []
        """Asynchronous preemptions under way, in the order in which they were decided."""

    def _sign(self, pod: Pod) -> str | None:
        framework = self.frameworks.get(pod.spec.scheduler_name)
        return None if framework is None else framework.sign_pod(pod)

    # -- asked by the event handlers -----------------------------------------------------------

    def responsible_for(self, pod: Pod) -> bool:
        """Return whether a profile of this scheduler schedules the pod."""
        return pod.spec.scheduler_name in self.frameworks

    def move_without_hints(
        self, event: ev.ClusterEvent, old: Pod | None, new: Pod, now: int
    ) -> Steps[bool]:
        """Tell the queue about a bound pod where hints are off; then only cross-pod terms are looked at."""

        def labels() -> Mapping[str, str]:
            namespace = self.listers.namespaces.get("", new.namespace)
            return {} if namespace is None else namespace.metadata.labels

        if event.action == ev.ADD:
            return self.queue.assigned_pod_added(new, labels, now)
        assert old is not None
        return self.queue.assigned_pod_updated(old, new, event, labels, now)

    # -- waiting pods --------------------------------------------------------------------------

    def set_waiting(self, uid: str, reject: Callable[[str], bool] | None) -> None:
        """Register how to reject a pod that waits in Permit; None ends the wait."""
        if reject is None:
            self._waiting.pop(uid, None)
        else:
            self._waiting[uid] = reject

    def is_waiting(self, uid: str) -> bool:
        """Return whether a Permit plugin holds the pod back."""
        return uid in self._waiting

    def reject_waiting_pod(self, uid: str, message: str) -> bool:
        """Reject a waiting pod; False when it does not wait or was decided already."""
        reject = self._waiting.get(uid)
        return reject is not None and reject(message)

    # -- preemption ----------------------------------------------------------------------------

    def take_preemptions(self) -> list[PreemptionTask]:
        """Evictions decided by PostFilter since the last call (see `preemption_task`)."""
        tasks, self.handle.preemptions = self.handle.preemptions, []
        return tasks

    def preemption_plugin(self, task: PreemptionTask) -> DefaultPreemption | None:
        """The plugin to tell about a task's progress."""
        framework = self.frameworks.get(task.preemptor.spec.scheduler_name)
        return None if framework is None else preemption_plugin(framework.all_plugins)

    # -- the cycle -----------------------------------------------------------------------------

    def begin(self, info: QueuedPodInfo, now: int) -> Attempt | Skipped:
        """Start an attempt for a popped pod, or find that it needs none.

        Gate 126962 (issue 120622). Unfixed, a pod that is skipped because it is terminating or
        assumed stays in flight for ever, and every later event is kept for it. Fixed, its flight
        ends here.
        """
        pod = info.pod
        framework = self.frameworks.get(pod.spec.scheduler_name)
        if framework is None:
            self.queue.done(info.uid)
            reason = f"profile not found for scheduler name {pod.spec.scheduler_name!r}"
            return Skipped(info, reason)
        if pod.metadata.deletion_timestamp is not None:
            self._skipped(info)
            note = f"skip schedule deleting pod: {pod.key}"
            event = EventIntent(pod, "Warning", "FailedScheduling", "Scheduling", note)
            return Skipped(info, note, event)
        if self.cache.is_assumed_pod(pod):
            self._skipped(info)
            return Skipped(info, f"pod {pod.key} is assumed already")
        state = CycleState(now)
        return Attempt(info, framework, state, now, info.uid, self.queue.scheduling_cycle)

    def skips(self, info: QueuedPodInfo) -> bool:
        """Return whether `begin` will find that a popped pod needs no attempt."""
        pod = info.pod
        return (
            pod.spec.scheduler_name not in self.frameworks
            or pod.metadata.deletion_timestamp is not None
            or self.cache.is_assumed_pod(pod)
        )

    def _skipped(self, info: QueuedPodInfo) -> None:
        if self._done_when_skipped:
            self.queue.done(info.uid)

    def update_snapshot(self, attempt: Attempt) -> None:
        """Look at the cluster anew; on an inconsistency sets `attempt.failure`."""
        problem = self.renew_snapshot()
        if problem:
            attempt.failure = Failure(Code.ERROR, SchedulingError(problem))

    def renew_snapshot(self) -> str:
        """Look at the cluster anew; an error text, "" when it is consistent."""
        try:
            self.cache.update_snapshot(self.snapshot)
        except SnapshotError as failed:
            return str(failed)
        return ""

    def find_node(self, attempt: Attempt) -> Effects[None]:
        """Choose a node: sets `attempt.result` or `attempt.failure`."""
        if attempt.failure is None:
            yield from schedule(self.search, attempt)
