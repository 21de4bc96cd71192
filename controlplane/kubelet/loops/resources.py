"""Resource managers, allocations and resizes of a kubelet, and the tasks that serve them.

Points: `kubelet.allocation` (waiting for the allocation mutex), `kubelet.allocation.retry`,
`kubelet.cpu-manager` (a pass of the reconcile loop), and those of the operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.log import ERROR
from controlplane.api.resize_policy import forbids_preemption
from controlplane.api.times import SECOND
from controlplane.api.tree import EMPTY_MAP
from controlplane.client.loops.clientset import NODES, Client
from controlplane.client.loops.event_recorder import reference
from controlplane.client.loops.guarded import attempted
from controlplane.kubelet.allocation.conditions import ResizeConditions
from controlplane.kubelet.allocation.feasibility import Feasibility
from controlplane.kubelet.allocation.manager import (
    INITIAL_RETRY_S,
    PERIODIC_RETRY,
    PODS_REMOVED,
    AllocationManager,
)
from controlplane.kubelet.allocation.state import ACTUATED, ALLOCATED, PodResourceState, restore
from controlplane.kubelet.cm.checkpoint import CheckpointError
from controlplane.kubelet.cm.container_manager import FILES, ContainerManager
from controlplane.kubelet.cm.devicemanager.pod_devices import FILE as DEVICES_FILE
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.fixes import ManagerFixes
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.eviction.manager import EvictionManager
from controlplane.kubelet.features import GENERATION_TRACKING, RESOURCE_HEALTH, SCHEDULER_PREEMPTION
from controlplane.kubelet.loops.carrying_out import carry_out, save
from controlplane.kubelet.loops.lock import Lock
from controlplane.kubelet.loops.plugin_devices import PluginDevices
from controlplane.kubelet.machine import machine_of_text
from controlplane.kubelet.node.admission_chain import AdmissionChain
from controlplane.kubelet.pod import preemption
from controlplane.kubelet.pod.resizing import GATE as JUDGED_BY_SNAPSHOT
from controlplane.kubelet.pod.resizing import Resizing
from controlplane.kubelet.pod.status import Condition as PodCondition
from controlplane.metrics.numbers import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors import Context
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.api.quantity import Quantity
    from controlplane.api.tree import Tree
    from controlplane.gates import FixGates
    from controlplane.kubelet.allocation.events import ResizeEvent
    from controlplane.kubelet.allocation.state import PodResources
    from controlplane.kubelet.effects import PluginCall
    from controlplane.kubelet.loops.pod_workers import PodWorkers
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.node.settings import KubeletSettings

RECONCILE_PERIOD_S = 10
NO_MACHINE = "cores=1 memory=4Gi"
"""The machine of a node with device plugins for which none is described: one NUMA node."""
COUNTS_AT_ONCE = "103979"
STARTS_AS_ALLOCATED = "126033"
GENERATION_KEPT = "131157"
MANAGER_GATES = {
    "sources_first": "81344",
    "release_by_activity": "90377",
    "siblings_keep": "105114",
    "group_rule": "123443",
    "needs_nothing_new": "123971",
    "sums_by_group": "127074",
    "one_write": "136605",
    "pods_once": "141041",
}
"""The fix gates of the managers, by the names of their switches."""


class NodeResources:
    """The managers of one kubelet. Their memory is lost with the process, their files are not."""

    def __init__(
        self,
        shared: Shared,
        settings: KubeletSettings,
        workers: PodWorkers,
        plugins: Mapping[str, str] = EMPTY_MAP,
    ) -> None:
        """`plugins` are the actors of device plugins by resource.

        Raises ManagerError for policies that the machine does not take.
        """
        self._shared = shared
        self._workers = workers
        self.settings = settings
        self.metrics = Metrics()
        self.mutex = Lock(shared.ctx, "kubelet.allocation")
        self.waiting = shared.ctx.condition()
        self.changed = shared.ctx.signal()
        """Assignments of CPUs may have changed since the last pass of the reconcile loop."""
        self.retry_at: int | None = None
        self.containers: ContainerManager | None = None
        self.plugins: PluginDevices | None = None
        self.device_statuses: Callable[[str, str], Sequence[Tree]] | None = None
        """Returns the devices of plugins that a container has, for its status; None where it does not list them."""
        machine = settings.machine or (machine_of_text(NO_MACHINE) if plugins else None)
        if (settings.hands_out or plugins) and machine is not None:
            ran = _running(shared)
            self.containers = ContainerManager(
                machine,
                settings.policies,
                active_pods=self._pods_that_keep,
                sources_ready=shared.sources_ready,
                features=settings.features,
                metrics=self.metrics,
                fixes=_manager_fixes(shared.fixes),
                plugins_now=(lambda: shared.ctx.now) if plugins else None,
                running=lambda uid, container: (uid, container) in ran,
            )
            if self.containers.devices is not None:
                shared.devices = self.containers.devices
                self.plugins = PluginDevices(shared, plugins, self.containers.devices)
                if settings.features.enabled(RESOURCE_HEALTH):
                    self.device_statuses = self.containers.devices.resource_statuses
        self.eviction = EvictionManager(settings.eviction)
        conditions = ResizeConditions(shared.fixes.fixed(GENERATION_KEPT), self.metrics)
        feasibility = Feasibility(
            settings.features, self.metrics, settings.policies.cpu, settings.policies.memory
        )
        self.tracks_generation = settings.features.enabled(GENERATION_TRACKING)
        self._told_of_policy = settings.features.enabled(SCHEDULER_PREEMPTION)
        chain = AdmissionChain(
            self._node,
            feasibility,
            self._promised,
            self.containers,
            scheduler_makes_room=self._told_of_policy,
            pressure=self.eviction.objection,
        )
        self.allocation = AllocationManager(
            chain.admit,
            conditions,
            KubeletView(
                workers.active_pods,
                shared.sources_ready,
                settings.features,
                self.metrics,
            ),
            pod_by_uid=shared.pods.get,
            sync=self._sync,
            record=self._record,
            now=shared.now,
        )
        self.resizing = Resizing(
            settings.features,
            conditions,
            self.allocation.allocation,
            self._record,
            lambda file, content: save(shared.ctx, file, content),
            asks_again=shared.fixes.fixed(JUDGED_BY_SNAPSHOT),
            forbidden=self._forbidding,
            wanted=None if shared.fixes.fixed(STARTS_AS_ALLOCATED) else shared.pods.get,
        )

    def _node(self) -> Node:
        return self._shared.node

    def _pods_that_keep(self) -> Sequence[Pod]:
        """The pods that keep what the managers gave them.

        Gate 103979 (issue 103952, 1.22 only). Unfixed, a pod counts once it has a worker: what the first
        container of a pod got is taken back while the second one is given its share.
        """
        active = self._workers.active_pods()
        if self._shared.fixes.fixed(COUNTS_AT_ONCE):
            return active
        return [pod for pod in active if self._workers.get(pod.uid) is not None]

    def _forbidding(self) -> str:
        node = self._shared.node
        return node.name if self._told_of_policy and forbids_preemption(node) else ""

    def node_changed(self, old: Node, new: Node) -> None:
        """The own Node changed: notify pods with a waiting resize whether others may be preempted (KEP-5836)."""
        if self._told_of_policy and forbids_preemption(old) != forbids_preemption(new):
            for uid in self.allocation.pending:
                pod = self._shared.pods.get(uid)
                if pod is not None:
                    self._sync(pod)

    def _promises(self) -> tuple[Mapping[str, Quantity], Sequence[Pod]]:
        """Return the allocatable amounts, and the admitted pods that count, with their allocations."""
        allocation, workers = self.allocation, self._workers
        counted = [
            allocation.allocated_pod(pod)
            for pod in workers.active_pods()
            if allocation.allocation(pod.uid) is not None and workers.get(pod.uid) is not None
        ]
        return self._shared.node.status.allocatable, counted

    def _promises_go_by(self) -> tuple[object, ...]:
        """Return the inputs of `_promises`."""
        workers, allocatable = self._workers, self._shared.node.status.allocatable
        return allocatable, self.allocation.state, workers.active_pods(), workers.uids()

    def _promised(self, uid: str) -> PodResources | None:
        return self.allocation.allocation(uid)

    def _sync(self, pod: Pod) -> None:
        """Ask for a sync of a pod with its current allocation."""
        current = self._shared.pods.get(pod.uid)
        if current is not None:
            self._workers.update(self.allocation.allocated_pod(current))

    def _record(self, event: ResizeEvent) -> None:
        self._shared.event(reference(event.pod), event.type, event.reason, event.message)

    # ------------------------------------------------------------------ start

    async def start(self, ctx: Context) -> bool:
        """Take over what the disk has. False when it does not fit: such a kubelet does not run."""
        disk = ctx.disk
        self._shared.host.containers = None
        self._shared.host.metrics = self.metrics
        self._shared.host.key_of = self._key_of
        self._shared.host.writing = 0
        self._shared.host.refused = ""
        try:
            self.allocation.start(disk.read(ALLOCATED))
            text = disk.read(ACTUATED)
            self.resizing.actuated = PodResourceState() if text is None else restore(text, ACTUATED)
            if self.containers is not None:
                files = {name: text for name in FILES if (text := disk.read(name)) is not None}
                await carry_out(ctx, self._shared.host, self.containers.start(files))
                if self.containers.devices is not None:
                    told = self.containers.devices.start(disk.read(DEVICES_FILE))
                    if told:
                        self._shared.error(told)
        except (CheckpointError, ManagerError) as error:
            ctx.log("kubelet.fatal", level=ERROR, data={"message": str(error)})
            self._shared.host.refused = str(error)
            return False
        self._shared.host.containers = self.containers
        self._shared.host.promises = self._promises
        self._shared.host.promises_go_by = self._promises_go_by
        ctx.spawn(self._retry_now_and_then, name="allocation-manager")
        if self.containers is not None:
            ctx.spawn(self._reconcile_forever, name="cpu-manager")
        return True

    def _key_of(self, uid: str) -> str:
        worker = self._workers.get(uid)
        pod = self._shared.pods.get(uid) or (None if worker is None else worker.pod)
        return "" if pod is None else pod.key

    # ------------------------------------------------------------------ Helper of carry_out

    async def kill(self, ctx: Context, pod: Pod) -> None:
        """Kill a pod so that a more important one fits, and wait for it."""
        status = preemption.PREEMPTED_STATUS
        self._shared.event(reference(pod), "Warning", status["reason"], status["message"])
        condition = PodCondition(**preemption.PREEMPTED_CONDITION)
        await self._workers.kill(ctx, pod, status, condition)

    async def fetch_node(self, ctx: Context) -> None:
        """Read the node afresh, if the server answers."""
        shared = self._shared
        client = Client(ctx, shared.server)
        found = await attempted(client.get(NODES, "", shared.node.name))
        if found is not None:
            shared.node = found.view

    async def call_plugin(self, ctx: Context, call: PluginCall) -> Any:
        """Call a device plugin. Raises PluginFailed."""
        assert self.plugins is not None
        return await self.plugins.call(ctx, call)

    # ------------------------------------------------------------------ resizes

    async def retry(self, ctx: Context, trigger: str) -> None:
        """Try all pending resizes once. Hold the mutex."""
        if not self.allocation.pending:
            return
        seconds = await carry_out(ctx, self._shared.host, self.allocation.retry(trigger), self)
        self.retry_at = ctx.now + seconds * SECOND if self.allocation.pending else None
        self.waiting.notify_all()
        if self.containers is not None and self.containers.holds:
            self.reassign()  # a try in vain leaves behind what the containers before the last one were given

    async def retry_for_stopped(self, ctx: Context) -> None:
        """Try pending resizes once when the containers of a pod have stopped whose end was known before.

        Part of the repairs of the fix gates 104824 and here14, with which such a pod counts until here: what retries
        resizes at its end (HandlePodRemoves, HandlePodReconcile) comes too early for them then.
        """
        if self.allocation.pending:
            async with self.mutex:
                await self.retry(ctx, PODS_REMOVED)

    async def _retry_now_and_then(self, ctx: Context) -> None:
        """The ticker: idle, since a resize that waits for room does not keep a run from settling."""
        self.retry_at = ctx.now + INITIAL_RETRY_S * SECOND if self.allocation.pending else None
        while True:
            at = self.retry_at
            if at is None or at > ctx.now:
                wait = None if at is None else at - ctx.now
                await self.waiting.wait(wait, idle=True, point="kubelet.allocation.retry")
                continue
            self.retry_at = None
            async with self.mutex:
                await self.retry(ctx, PERIODIC_RETRY)

    # ------------------------------------------------------------------ CPUs of running containers

    async def _reconcile_forever(self, ctx: Context) -> None:
        """Every ten seconds, leaving out the passes that would find nothing."""
        assert self.containers is not None
        while True:
            await self.changed.wait(idle=True, point="kubelet.cpu-manager")
            await ctx.sleep_until(
                self._shared.next_tick(RECONCILE_PERIOD_S), point="kubelet.cpu-manager"
            )
            await carry_out(ctx, self._shared.host, self.containers.remove_stale_state())
            for update in self.containers.cpu.updates(self._running):
                await ctx.region("kubelet.cpu-manager.update")
                sandbox = self._shared.host.sandboxes.get(update.pod_uid)
                container = None if sandbox is None else sandbox.containers.get(update.container)
                if container is not None and container.container_id == update.container_id:
                    container.cpus, container.exclusive = self.cpus_of(
                        update.pod_uid, update.container
                    )
                    self.containers.cpu.applied(update)

    def _running(self, pod: Pod, container: str) -> str | None:
        """The id of a running container, as the status manager's status of its pod names it."""
        status = self._shared.statuses.get(pod.uid) or {}
        for part in ("initContainerStatuses", "containerStatuses"):
            for each in status.get(part) or ():
                if each["name"] == container and "running" in each.get("state", {}):
                    found: str | None = each.get("containerID")
                    return found
        return None

    def cpus_of(self, uid: str, container: str) -> tuple[str, bool]:
        """Return the CPUs of a container as a list ("" without assignment), and whether they are exclusive."""
        if self.containers is None:
            return "", False
        cpu = self.containers.cpu
        return str(cpu.affinity_of(uid, container)), bool(cpu.state.get(uid, container))

    async def made(self, ctx: Context, pod: Pod, container: str, container_id: str) -> None:
        """A container was made: the managers know it by its id from now on."""
        if self.containers is not None:
            await carry_out(
                ctx, self._shared.host, self.containers.add_container(pod, container, container_id)
            )

    async def ended(self, ctx: Context, container_id: str) -> None:
        """A container has stopped. What it had comes back when its pod is not active any more."""
        if self.containers is not None:
            await carry_out(ctx, self._shared.host, self.containers.remove_container(container_id))

    def reassign(self) -> None:
        """Assignments of CPUs may have changed: let the next pass of the reconcile loop apply them."""
        self.changed.notify()

    def source_ready(self) -> None:
        """A source of pods is known: what the files of the managers name of pods that are gone can be taken back.

        Upstream's loop looks every ten seconds, and takes back nothing before all sources are known.
        """
        if self.containers is not None and self.containers.holds and self._shared.sources_ready():
            self.reassign()


def _running(shared: Shared) -> frozenset[tuple[str, str]]:
    """Return (pod uid, container) of what the runtime has running."""
    return frozenset(
        (uid, container.name)
        for uid, sandbox in shared.host.sandboxes.items()
        for container in sandbox.running()
    )


def _manager_fixes(fixes: FixGates) -> ManagerFixes:
    return ManagerFixes(**{name: fixes.fixed(number) for name, number in MANAGER_GATES.items()})
