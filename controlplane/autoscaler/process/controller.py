"""The cluster autoscaler as a process: a loop every scan interval, at once after one that changed something.

A pod that cannot be scheduled ends the wait for the next loop, as upstream. Loops go on for ever; the next one keeps a
run from settling only while something is due by itself, or has changed since the last one.

Points: `cluster-autoscaler.get`, `.sync` and `.delay` of its one queue; requests to the cloud
(`autoscaler.refresh`, `.increase`, `.decrease`, `.delete`), and those of deletions (`process.actuation`). Follows
`main.go`, `loop/trigger.go`, `core/static_autoscaler.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.times import SECOND
from controlplane.autoscaler.expander import Market, Prices, preferred_cores
from controlplane.autoscaler.loop import Autoscaler
from controlplane.autoscaler.nodes import TO_BE_DELETED, marked_for_deletion, readiness
from controlplane.autoscaler.pods import is_unschedulable
from controlplane.autoscaler.process import taints
from controlplane.autoscaler.process.actuation import Actuator
from controlplane.autoscaler.process.capacity_buffers import CapacityBuffers
from controlplane.autoscaler.process.capacity_quotas import CapacityQuotas
from controlplane.autoscaler.process.listing import Cluster
from controlplane.autoscaler.process.metrics import Metrics
from controlplane.autoscaler.process.provider import CloudProvider
from controlplane.autoscaler.process.provisioning import Requests
from controlplane.autoscaler.process.reporting import INITIALIZING, Reporter, StatusMap, tell_pods
from controlplane.autoscaler.provisioning.definition import REQUESTS
from controlplane.client.election import ElectionConfig
from controlplane.client.resources import CONFIG_MAPS, DISRUPTION_BUDGETS, NODES, PODS
from controlplane.controllers.common.controller import (
    NORMAL,
    WARNING,
    Controller,
    Handlers,
    Periodic,
    Work,
)
from controlplane.controllers.common.effects import Reconcile, RequestFailed
from controlplane.decisions import immediate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.policy import PodDisruptionBudget
    from controlplane.autoscaler.cloud.file import NodeGroups
    from controlplane.autoscaler.deletions import Batch
    from controlplane.autoscaler.loop import Loop
    from controlplane.autoscaler.utilization import Utilization
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.metrics.family import Family

__all__ = ["ClusterAutoscaler", "autoscaler_of"]

QUEUE: Final = "cluster-autoscaler"
RECENT: Final = 10 * SECOND
"""The time after which a pod that cannot be scheduled does not end the wait for the next loop."""
SPACING: Final = SECOND // 10
"""The time between the starts of two loops at least: upstream's loops take time, and these do not."""
INSTANCES_PERIOD: Final = 120 * SECOND
PRIORITIES: Final = "cluster-autoscaler-priority-expander"
START_TIMEOUT: Final = 600 * SECOND


class ClusterAutoscaler(Controller):
    """One queue, whose keys are the numbers of loops; a number that is not the next one's is passed over."""

    name = "cluster-autoscaler"
    content: NodeGroups

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        settings = self.content.settings
        self._settings = settings
        self._queue = host.queue(QUEUE)
        self._cluster = Cluster(caches, settings.options, lambda: host.now)
        self._provider = CloudProvider(self.content.groups)
        self._map = StatusMap(settings)
        self._reporter = Reporter(host)
        self._metrics = Metrics()
        self._priorities = (
            caches.of(CONFIG_MAPS) if "priority" in settings.options.expanders else None
        )
        self._actuator = Actuator(
            settings,
            self._cluster,
            self,
            self._provider.delete,
            self._reporter.report,
            self._record,
            looks_again=host.fixes.fixed("ca5235"),
        )
        self._requests: Requests | None = None
        if settings.provisioning_requests:
            backoff = settings.first_request_backoff, settings.longest_request_backoff
            batch = settings.request_batch
            self._requests = Requests(caches, self._reporter.report, backoff, batch)
        self._quotas = CapacityQuotas(host, caches) if settings.capacity_quotas else None
        self._buffers: CapacityBuffers | None = None
        if settings.buffer_controller or settings.buffer_injection:
            self._buffers = CapacityBuffers(host, caches, settings)
        self._started = host.now
        self._autoscaler = Autoscaler(
            settings.options,
            self._provider,
            self._market,
            host.now,
            self._begin,
            self._cluster.listers,
            self._requests,
            tuple if self._quotas is None else self._quotas.valid,
            None if self._buffers is None else self._buffers.pods,
        )
        self._initialized = self._running = self._token = False
        self._changed, self._began = host.now, host.now - SPACING
        self._number, self._due, self._idle = 0, 0, True
        self._wait(settings.scan_interval, idle=False)

    # -- changes -----------------------------------------------------------------------------------

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Note changes that a loop may answer."""
        found: dict[Resource[Any], Handlers] = {
            PODS: Handlers(self._pod_added, self._pod_updated, self._gone),
            NODES: Handlers(self._node_added, self._node_updated, self._node_gone),
            DISRUPTION_BUDGETS: Handlers(self._stir, self._budget_updated, self._gone),
        }
        if self._requests is not None:
            found[REQUESTS] = Handlers(self._stir, self._stir, self._gone)
        if self._quotas is not None:
            found.update(self._quotas.handlers(self._stir))
        if self._buffers is not None:
            found.update(self._buffers.handlers(self._stir))
        return found

    def _pod_added(self, obj: Object[Pod]) -> None:
        self._stir()
        self._heard(obj.view)

    def _pod_updated(self, old: Object[Pod], new: Object[Pod]) -> None:
        if _pod_state(old.view) != _pod_state(new.view):
            self._stir()
        self._heard(new.view)

    def _node_updated(self, old: Object[Node], new: Object[Node]) -> None:
        if _node_state(old.view) != _node_state(new.view):
            self._stir()
        if self._quotas is not None:
            self._quotas.node_changed(old, new)

    def _node_added(self, obj: Object[Node]) -> None:
        self._stir()
        if self._quotas is not None:
            self._quotas.node_changed(obj)

    def _node_gone(self, obj: Object[Node], _unknown: bool) -> None:
        self._node_added(obj)

    def _budget_updated(
        self, old: Object[PodDisruptionBudget], new: Object[PodDisruptionBudget]
    ) -> None:
        before, after = old.view.status.disruptions_allowed, new.view.status.disruptions_allowed
        if before != after:
            self._stir()

    def _gone(self, _obj: Object[Any], _unknown: bool) -> None:
        self._stir()

    def _heard(self, pod: Pod) -> None:
        """End the wait for the next loop if a pod has not been schedulable since lately."""
        if not self._settings.frequent_loops or not _unschedulable_since(
            pod, self.host.now - RECENT
        ):
            return
        if self._running:
            self._token = True
            return
        wait = self._began + SPACING - self.host.now
        if wait > 0:
            self._queue.add_after(str(self._number), wait)
        else:
            self._queue.add(str(self._number))

    def _stir(self, *_: object) -> None:
        """Note a change: the run does not settle before the next loop."""
        self._changed = self.host.now
        if not self._running and self._idle:
            self._idle = False
            self._queue.add_after(str(self._number), max(1, self._due - self.host.now))

    # -- loops -------------------------------------------------------------------------------------

    def work(self) -> Sequence[Work]:
        """One worker: loops never overlap. Quotas and buffers have one of their own."""
        others = [each.work() for each in (self._quotas, self._buffers) if each is not None]
        return (Work(QUEUE, self.sync, workers=1), *others)

    def periodic(self) -> Sequence[Periodic]:
        """Ask for instances anew."""
        refresh = immediate(self._autoscaler.state.refresh_instances)
        return (Periodic("autoscaler.instances", INSTANCES_PERIOD, refresh, INSTANCES_PERIOD),)

    @classmethod
    def goes_on(cls) -> tuple[str, ...]:
        """Name the loops."""
        interval = cls.content.settings.scan_interval
        return (f"loops of the cluster autoscaler every {interval / SECOND:g} s",)

    def families(self) -> Iterator[Family]:
        """The metrics."""
        return self._metrics.families(self._autoscaler, self._actuator.drainer.counts)

    def _wait(self, delay: int, *, idle: bool) -> None:
        self._number += 1
        self._idle, self._due = idle, self.host.now + delay
        self._queue.add_after(str(self._number), delay, idle=idle)

    def sync(self, key: str) -> Reconcile[None]:
        """Make a loop, unless it was made already, and ask for the next one."""
        if key != str(self._number):
            return
        self._queue.relax(key)
        self._running, self._token, self._began = True, False, self.host.now
        productive = yield from self._loop()
        self._running = False
        frequent = self._settings.frequent_loops
        if frequent and (productive or self._token):
            self._wait(SPACING, idle=False)
            return
        now = self.host.now
        waits = (
            productive
            or self._autoscaler.waits(now, self._changed)
            or (self._requests is not None and self._requests.waits(now))
        )
        self._wait(self._settings.scan_interval, idle=not waits)

    def _loop(self) -> Reconcile[bool]:
        """Make one loop; return whether it made the cluster grow or shrink."""
        if not self._initialized:
            yield from self._map.write(INITIALIZING, self.host.now)
        view = self._cluster.view(self._actuator.tracker.snapshot())
        error = yield from self._provider.refresh()
        if error:
            return False
        if not self._initialized:
            self._initialized = True
            yield from self._clean_up(view.nodes)
            view = self._cluster.view(self._actuator.tracker.snapshot())
        if (yield from self._aborted(view.nodes)):
            return False
        self._reporter.begin()
        loop = yield from self._autoscaler.run_once(view)
        self._metrics.saw(loop, sum(_unschedulable_since(pod, 0) for pod in view.pods))
        yield from self._soft_taints(loop)
        for told in loop.events:
            self._record(told.type, told.reason, told.message)
        yield from self._map.write(loop.status, self.host.now)
        grown = loop.scale_up
        if grown is not None:
            others = grown if self._buffers is None else self._buffers.tell(grown)
            tell_pods(others, self._reporter.report)
        processed = self._requests is not None and self._requests.processed
        return processed or loop.started or (grown is not None and grown.result == "Successful")

    def _clean_up(self, nodes: Sequence[Node]) -> Reconcile[None]:
        """Take off the marks of deletions that an earlier process has left."""
        cloud = self._provider.cloud()
        for node in nodes:
            if cloud.group_of(node) is None or not marked_for_deletion(node):
                continue
            try:
                yield from taints.clean_to_be_deleted(
                    node, self._clock, cordon=self._settings.cordon
                )
            except RequestFailed as error:
                text = f"failed to clean {TO_BE_DELETED} on node {node.name}: {error}"
                self._reporter.report(node, WARNING, "ClusterAutoscalerCleanup", text)
            else:
                text = f"removed {TO_BE_DELETED} taint from node {node.name}"
                self._reporter.report(node, NORMAL, "ClusterAutoscalerCleanup", text)

    def _aborted(self, nodes: Sequence[Node]) -> Reconcile[bool]:
        """Return whether there is no node to begin with, where that keeps the cluster from growing."""
        if self._settings.scale_up_from_zero:
            return False
        now = self.host.now
        ready = [node for node in nodes if readiness(node).ready and not node.spec.unschedulable]
        if ready:
            return False
        text = "Cluster has no ready nodes." if nodes else "Cluster has no nodes."
        self._autoscaler.forget()
        yield from self._map.write({**INITIALIZING, "message": text}, now)
        if not nodes or now > self._started + START_TIMEOUT:
            self._record(WARNING, "ClusterUnhealthy", text)
        return True

    def _soft_taints(self, loop: Loop) -> Reconcile[None]:
        for names, change in (
            (loop.unmarked, taints.clean_candidate),
            (loop.marked, taints.mark_candidate),
        ):
            for name in names:
                node = self._cluster.node(name)
                if node is None:
                    continue
                try:
                    yield from change(node, self._clock)
                except RequestFailed:
                    continue  # the next loop tries again

    # -- parts -------------------------------------------------------------------------------------

    def _clock(self) -> int:
        return self.host.now

    def _record(self, kind: str, reason: str, message: str) -> None:
        """Tell an event of the autoscaler itself, about its ConfigMap."""
        if self._map.about is not None:
            self.host.event(self._map.about, kind, reason, message)

    def _market(self) -> Market:
        text: str | None = None
        if self._priorities is not None:
            found = self._priorities.get(f"{self._settings.namespace}/{PRIORITIES}")
            text = None if found is None else (found.tree.get("data") or {}).get("priorities")
        prices = Prices()
        if "price" in self._settings.options.expanders:
            content = self.content
            prices = Prices(
                {each.name: each.price for each in content.groups if each.price is not None},
                content.core_price,
                content.gib_price,
                preferred_cores(self._cluster.node_count()),
            )
        return Market({}, prices, text)

    def _begin(self, batches: Sequence[Batch]) -> Reconcile[bool]:
        cloud = self._provider.cloud()

        def whole(name: str) -> bool:
            group = cloud.group(name)
            return group is not None and group.options.zero_or_max

        return (yield from self._actuator.begin(batches, whole))

    # -- what deletions tell -----------------------------------------------------------------------

    def utilization(self, name: str) -> Utilization | None:
        """Return the utilization of a node, as the last look at it found."""
        return self._autoscaler.utilization(name)

    def deleted(self, group: str, node: Node, *, drained: bool, due: int) -> None:
        """Note that a node should be gone by a time."""
        reason = "underutilized" if drained else "empty"
        self._metrics.removed(reason if readiness(node).ready else "unready")
        self._autoscaler.state.scale_down(group, due)

    def ended(self) -> None:
        """Note that a deletion is over."""
        self._stir()


def _pod_state(pod: Pod) -> tuple[object, ...]:
    return (
        pod.spec.node_name,
        pod.status.phase,
        pod.metadata.deletion_timestamp is None,
        _unschedulable_since(pod, 0),
    )


def _node_state(node: Node) -> tuple[object, ...]:
    taints_of = tuple((each.key, each.effect) for each in node.spec.taints)
    return (node.spec.unschedulable, taints_of, readiness(node).ready, node.metadata.annotations)


def _unschedulable_since(pod: Pod, time: int) -> bool:
    """Return whether the scheduler found no node for a pod, at a time or later."""
    if pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
        return False
    return is_unschedulable(pod, time)


def autoscaler_of(content: NodeGroups, *, replicas: int = 1) -> type[ClusterAutoscaler]:
    """Return the autoscaler with these settings and groups, as a process (`ClusterConfig.own_controllers`).

    Of several `replicas` one leads, elected over the Lease `cluster-autoscaler` in the namespace of its settings.
    """
    election = ElectionConfig(QUEUE, content.settings.namespace)
    more = {"content": content, "replicas": replicas, "election": election}
    return type("ClusterAutoscaler", (ClusterAutoscaler,), more)
