"""Claims of a kubelet's pods: its connections to DRA drivers, and the manager's operations.

Tasks: `dra-plugin` holds the connection to a driver, `dra-health` takes in what it reports of its devices, `dra-slices`
deletes the slices of drivers that are away, and `dra-manager` unprepares claims of pods that are gone. Points:
`kubelet.dra.connect`, `kubelet.dra.health`, `kubelet.dra.wipe`, `kubelet.dra.reconcile`, `kubelet.checkpoint`, and one
for each request and call. Upstream: pkg/kubelet/cm/dra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from actors import LinkBroken, Timeout
from actors.log import INFO, WARNING
from controlplane.api.times import SECOND
from controlplane.client.calls import Call
from controlplane.client.errors import ApiError, ConnectionLost
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import RESOURCE_SLICES
from controlplane.decisions import Write
from controlplane.kubelet.allocation.state import container_trees
from controlplane.kubelet.cm.dra.claim_info import FILE, ClaimCache
from controlplane.kubelet.cm.dra.driver import Connect, HealthReport, WatchHealth
from controlplane.kubelet.cm.dra.health import FILE as HEALTH_FILE
from controlplane.kubelet.cm.dra.health import HealthCache
from controlplane.kubelet.cm.dra.manager import RECONCILE_PERIOD_S, ClaimError, DRAManager
from controlplane.kubelet.cm.dra.messages import CALL_TIMEOUT_NS, DriverCall, DriverFailed
from controlplane.kubelet.loops.carrying_out import CHECKPOINT, save
from controlplane.kubelet.loops.driver_calls import call_driver

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.kubelet.cm.dra.manager import Operation
    from controlplane.kubelet.loops.pod_workers import PodWorkers
    from controlplane.kubelet.loops.shared import Shared

__all__ = ["NodeClaims"]

FIRST_BACK_OFF_NS: Final = 1 * SECOND
LONGEST_BACK_OFF_NS: Final = 120 * SECOND
"""Of a connection that is tried again; gRPC's."""
WIPING_DELAY_NS: Final = 30 * SECOND
"""The time for which a driver may be away before its slices are deleted."""
OWN_CLAIMS_ONLY: Final = "here11"
"""The gate by which a pod gives back only claims that it holds."""
ENDING_CLAIMS_REFUSED: Final = "140527"
"""The gate by which a pod does not get a claim that is being unprepared."""
HEALTH_POINT: Final = "kubelet.dra.health"
HEALTH_RETRY_NS: Final = 5 * SECOND
STALE_SYNC_NS: Final = 60 * SECOND
"""The time from when health is stale to the sync that shows it: upstream it is the pod's next one, every 60 to 90 s."""
WIPE_FIRST_NS: Final = 1 * SECOND
WIPE_LONGEST_NS: Final = 300 * SECOND


class NodeClaims:
    """The claims of one node, for the pod workers.

    Args:
        shared: the kubelet's memory.
        drivers: by name of the driver, the actor that serves on this node.
        workers: the pods that count.
        groups: whether claims of pod groups count.
        tells_health: whether the status of containers lists their devices.
        tells_messages: whether it does so with the messages of drivers.
    """

    def __init__(
        self,
        shared: Shared,
        drivers: Mapping[str, str],
        workers: PodWorkers,
        *,
        groups: bool,
        tells_health: bool,
        tells_messages: bool,
    ) -> None:
        self._shared = shared
        self._drivers = drivers
        self._workers = workers
        self._groups = groups
        self._tells_health = tells_health
        self._tells_messages = tells_messages
        self._registered: dict[str, bool] = {}
        """By name, the drivers that have registered in this life of the kubelet, and whether they are connected."""
        self._manager = DRAManager(ClaimCache(), self._registered.__contains__)
        self._changed = shared.ctx.condition()

    @property
    def manager(self) -> DRAManager:
        """The manager, for observers."""
        return self._manager

    async def start(self, ctx: Context) -> None:
        """Take over the checkpoint, and start the tasks. Raises CheckpointError: the kubelet does not run with it."""
        text = ctx.disk.read(FILE)
        cache = ClaimCache.restore(text)
        known = self._registered.__contains__
        own_only = self._shared.fixes.fixed(OWN_CLAIMS_ONLY)
        refuses = self._shared.fixes.fixed(ENDING_CLAIMS_REFUSED)
        self._manager = DRAManager(
            cache, known, groups=self._groups, own_only=own_only, refuses_ending=refuses
        )
        if self._tells_health:
            self._manager.health = HealthCache.restored(ctx.disk.read(HEALTH_FILE))
        self._shared.host.claims = self._manager
        await self._carry_out(ctx, self._manager.start(text))
        ctx.spawn(self._wipe, "", name="dra-slices")
        for name, actor in self._drivers.items():
            ctx.spawn(self._connect, name, actor, name="dra-plugin")
        ctx.spawn(self._reconcile, name="dra-manager")

    def might_need(self, uid: str) -> bool:
        """Return whether claims may have to be unprepared for a pod."""
        return self._manager.might_need(uid)

    def devices_error(self, pod: Pod, container: str) -> str:
        """Return why a container cannot have the devices of its claims, "" if it can."""
        tree = container_trees(pod).get(container)
        if tree is not None:
            try:
                self._manager.cdi_devices(pod.tree, tree)
            except ClaimError as error:
                return str(error)
        return ""

    def resource_statuses(self, pod: Pod, container: str) -> Sequence[Tree]:
        """Return the devices of a container, as its status tells of them (gate ResourceHealthStatus)."""
        tree = container_trees(pod).get(container)
        if tree is None or not self._tells_health:
            return ()
        now, messages = self._shared.now(), self._tells_messages
        return self._manager.resource_statuses(pod.tree, tree, now, messages=messages)

    # ------------------------------------------------------------------ operations

    async def prepare(self, ctx: Context, pod: Pod) -> str:
        """Prepare the claims of a pod; why that failed, "" if it did not."""
        error = await self._attempt(ctx, self._manager.prepare(pod.tree))
        self._note(ctx, pod, "prepared", error)
        return error

    async def unprepare(self, ctx: Context, pod: Pod) -> str:
        """Unprepare the claims of a pod; why that failed, "" if it did not."""
        error = await self._attempt(ctx, self._manager.unprepare(pod.tree))
        self._note(ctx, pod, "unprepared", error)
        if error:
            self._shared.error(error, pod)
        return error

    @staticmethod
    def _note(ctx: Context, pod: Pod, change: str, error: str) -> None:
        level = WARNING if error else INFO
        data = {"change": change, "error": error}
        ctx.log("kubelet.claims", level=level, obj=f"Pod/{pod.key}", uid=pod.uid, data=data)

    async def _attempt(self, ctx: Context, operation: Operation) -> str:
        try:
            await self._carry_out(ctx, operation)
        except ClaimError as error:
            return str(error)
        finally:
            self._changed.notify_all()
        return ""

    async def _carry_out(self, ctx: Context, operation: Operation) -> None:
        client = Client(ctx, self._shared.server)
        answer: Any = None
        failure: Exception | None = None
        while True:
            try:
                effect = operation.send(answer) if failure is None else operation.throw(failure)
            except StopIteration:
                return
            answer = failure = None
            if isinstance(effect, Write):
                await ctx.region(CHECKPOINT)
                save(ctx, effect.file, effect.content)
            elif isinstance(effect, Call):
                try:
                    answer = await client.send(effect)
                except ApiError as error:
                    failure = error
                except LinkBroken as error:
                    failure = ConnectionLost(str(error))
            else:
                try:
                    answer = await self._call(ctx, effect)
                except DriverFailed as error:
                    failure = error

    async def _call(self, ctx: Context, call: DriverCall) -> Any:
        """Call a driver. Raises DriverFailed, with the text of the gRPC error."""
        actor, point = self._drivers[call.driver], f"dra {call.method}"
        return await call_driver(ctx, actor, call, CALL_TIMEOUT_NS, DriverFailed, point=point)

    # ------------------------------------------------------------------ drivers

    async def _connect(self, ctx: Context, driver: str, actor: str) -> None:
        """Hold the connection to a driver; its first answer registers it for as long as the kubelet runs."""
        delay, watched = FIRST_BACK_OFF_NS, False
        while True:
            try:
                stream = ctx.open(actor, Connect(self._shared.node.name), "dra-plugin")
                while True:
                    told = await stream.recv(idle=True, point="kubelet.dra.connect")
                    self._connected(ctx, driver)
                    if told.payload.health and self._tells_health and not watched:
                        watched = True
                        ctx.spawn(self._watch_health, driver, actor, name="dra-health")
                    delay = FIRST_BACK_OFF_NS
            except LinkBroken:
                if self._registered.get(driver):
                    self._registered[driver] = False
                    ctx.log("kubelet.dra", level=WARNING, data={"driver": driver, "is": "away"})
                    ctx.spawn(self._wipe, driver, name="dra-slices")
            await ctx.sleep(delay, idle=True, point="kubelet.dra.connect")
            delay = min(2 * delay, LONGEST_BACK_OFF_NS)

    async def _watch_health(self, ctx: Context, driver: str, actor: str) -> None:
        """Keep what a driver reports of its devices; forget it when the stream ends."""
        health, workers = self._manager.health, self._workers
        while True:
            try:
                stream = ctx.open(actor, WatchHealth(), "dra-health")
                while True:
                    now = self._shared.now()
                    due = health.next_stale(driver, now)
                    wait = None if due is None else due + STALE_SYNC_NS - now
                    try:
                        received = await stream.recv(wait, idle=True, point=HEALTH_POINT)
                    except Timeout:
                        stale = health.stale(driver, self._shared.now())
                        workers.devices_changed(self._manager.pods_affected(driver, stale))
                        continue
                    told: HealthReport = received.payload
                    changed = health.update(driver, told.devices, self._shared.now())
                    if changed:
                        await self._save_health(ctx)
                        workers.devices_changed(self._manager.pods_affected(driver, changed))
            except LinkBroken:
                if driver in health.drivers:
                    health.clear(driver)
                    await self._save_health(ctx)
            await ctx.sleep(HEALTH_RETRY_NS, idle=True, point=HEALTH_POINT)

    async def _save_health(self, ctx: Context) -> None:
        content = self._manager.health.content()
        await ctx.region(CHECKPOINT)
        save(ctx, HEALTH_FILE, content)

    def _connected(self, ctx: Context, driver: str) -> None:
        self._registered[driver] = True
        ctx.log("kubelet.dra", level=INFO, data={"driver": driver, "is": "connected"})
        self._workers.claims_promising()

    async def _wipe(self, ctx: Context, driver: str) -> None:
        """Delete the node's slices: those of all drivers at the start, those of one that stays away for too long."""
        selector = f"spec.nodeName={self._shared.node.name}"
        if driver:
            await ctx.sleep(WIPING_DELAY_NS, idle=True, point="kubelet.dra.wipe")
            if self._registered.get(driver):
                return
            selector += f",spec.driver={driver}"
        delay = WIPE_FIRST_NS
        call = Call("deletecollection", RESOURCE_SLICES, query={"fieldSelector": selector}, body={})
        while True:
            try:
                await Client(ctx, self._shared.server).send(call)
            except (ApiError, LinkBroken):
                await ctx.sleep(delay, idle=True, point="kubelet.dra.wipe")
                delay = min(2 * delay, WIPE_LONGEST_NS)
            else:
                return

    # ------------------------------------------------------------------ pods that are gone

    async def _reconcile(self, ctx: Context) -> None:
        """Every minute, unprepare the claims of pods that do not count any more."""
        shared = self._shared
        while True:
            due = shared.next_tick(RECONCILE_PERIOD_S)
            while ctx.now < due:
                await self._changed.wait(
                    due - ctx.now, idle=not self._unused(), point="kubelet.dra.reconcile"
                )
            if not shared.sources_ready():
                continue
            for uid, (namespace, names) in self._unused().items():
                operation = self._manager.unprepare_unused(uid, namespace, names)
                error = await self._attempt(ctx, operation)
                if error:
                    shared.error(f"unpreparing claims of pod {uid} failed, will retry: {error}")

    def _unused(self) -> Mapping[str, tuple[str, tuple[str, ...]]]:
        if not self._manager.cache.claims:
            return {}
        active = [pod.uid for pod in self._workers.active_pods()]
        return self._manager.unused(active)
