"""State that the tasks of the scheduler share: the core, the clock, the recorder, and the way of writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from actors import LinkBroken
from actors.inlet import Outlet
from actors.log import DEBUG, WARNING
from controlplane.api.times import SECOND
from controlplane.client.calls import Call
from controlplane.client.errors import ApiError, ConnectionLost, is_conflict
from controlplane.client.loops.clientset import PODS, Client, Resource
from controlplane.client.loops.event_recorder import EventRecorder
from controlplane.decisions import Locked, Sleep
from controlplane.scheduler.cycle import explain
from controlplane.scheduler.framework.cycle_state import PODS_TO_ACTIVATE
from controlplane.scheduler.framework.effects import Evictions
from controlplane.scheduler.framework.notified import ResyncedPlugin
from controlplane.scheduler.framework.panic import PanicError
from controlplane.scheduler.loops.api_dispatcher import ApiDispatcher
from controlplane.scheduler.loops.points import TOUCHES
from controlplane.scheduler.metrics import SchedulingMetrics
from controlplane.scheduler.queue.scheduling_queue import LOCKED
from controlplane.scheduler.scheduler import Skipped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actors import Context
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.request import Response
    from controlplane.api.view import View
    from controlplane.client.calls import ObjectList
    from controlplane.client.loops.connection import RestConfig
    from controlplane.gates import FixGates
    from controlplane.scheduler.cycle.attempt import Attempt
    from controlplane.scheduler.framework.api_calls import StatusPatchCall
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.framework.interface import ApiWrite
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.framework.writes import EventIntent, StatusPatch
    from controlplane.scheduler.loops.running import Binding
    from controlplane.scheduler.scheduler import Scheduler
    from controlplane.scheduler.state.node_info import NodeInfo

COMPONENT = "default-scheduler"

RESOURCES = {
    "pods": PODS,
    "persistentvolumes": Resource("", "v1", "persistentvolumes"),
    "persistentvolumeclaims": Resource("", "v1", "persistentvolumeclaims"),
}
"""Resources to which plugins write, by the name in their `ApiWrite`; any other name is a core resource."""


R = TypeVar("R")
KEEP_OFF_QUEUE = frozenset(point for point, (_, writes) in TOUCHES.items() if "queue" not in writes)
"""Behind these points the queue stays as it is."""
NOTHING: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

FILTER = "scheduler.cycle.filter"
READS_QUEUE = frozenset(
    ("scheduler.plugin.nominations", "scheduler.cycle.filter", "scheduler.cycle.post-filter")
)
"""Points whose region reads nominations, for which upstream takes the queue's lock."""


class Observer(Protocol):
    """Told how attempts go, for measurements from outside."""

    def attempt_started(self, uid: str) -> None:
        """A pod was popped."""

    def algorithm_ended(self, uid: str) -> None:
        """A node was found, or none."""

    def attempt_ended(self, uid: str, result: str) -> None:
        """The attempt is over: scheduled, unschedulable or error."""


class Shared:
    """State and services of every task of the scheduler."""

    def __init__(
        self,
        ctx: Context,
        core: Scheduler,
        epoch_ns: int,
        gates: FixGates,
        pods: Callable[[str], Object[Pod] | None],
        server: RestConfig,
        observer: Observer | None = None,
        searched: Outlet | None = None,
        *,
        explaining: bool = False,
    ) -> None:
        self.ctx = ctx
        self.core = core
        self.epoch = epoch_ns
        self.gates = gates
        self.cached_pod = pods
        self.server = server
        self.observer = observer
        self.metrics = SchedulingMetrics()
        self.explaining = explaining
        self.searched = searched or Outlet()
        self.poppable = ctx.condition()
        self.backing_off = ctx.condition()
        self.pooled = ctx.condition()
        self.assumed = ctx.condition()
        self.dispatcher = None
        if core.api_calls is not None:
            self.dispatcher = ApiDispatcher(ctx, core.api_calls, self)
        self.unlocked = ctx.condition()
        """Told when the queue's lock was let go."""
        self.recorder = EventRecorder(ctx, COMPONENT, epoch_ns, server=server)
        self._filters_note = any(isinstance(each, ResyncedPlugin) for each in core.all_plugins)
        """A filter notes what it refuses, in a cache of its plugin."""
        self.guards = gates.fixed("140177")
        self._newest: dict[str, StatusPatchCall] = {}
        """By uid: the call about a pod's status that was decided last and is not over."""
        """Whether status patches and evictions hold only for the pod that they were decided for."""
        self.bindings: dict[str, Binding] = {}
        """Binding cycles that a preemption may still stop (they wait in Permit or PreBind), by uid."""

    def now(self) -> int:
        """Nanoseconds since the epoch."""
        return self.epoch + self.ctx.now

    async def run(
        self,
        ctx: Context,
        steps: Effects[R],
        point: str,
        evict: Callable[[], Awaitable[str]] | None = None,
    ) -> R:
        """Make a decision in its steps: at each point others may go first. The first step is `point`'s.

        Its requests are sent, and it is told of their failures. `evict` carries out evictions that it asks for on
        its way. Raises what the decision raises.
        """
        queue = self.core.queue
        answer: Object[View] | ObjectList[View] | Response | str | None = None
        failure: ApiError | ConnectionLost | None = None
        while True:
            if ctx.is_noted:
                declare(ctx, point)
                if point == FILTER and self._filters_note:
                    ctx.writes("plugins")
            try:
                following = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as end:
                self._moved(point)
                result: R = end.value
                return result
            except PanicError as panic:
                await self.panicked(ctx, panic)
            except Exception:
                self._moved(point)
                raise
            answer = failure = None
            if isinstance(following, Locked):
                await self.unlocked.wait(point=following.point)
                continue
            self._moved(point)
            if isinstance(following, Call):
                try:
                    answer = await Client(ctx, self.server).send(following)
                except ApiError as error:
                    failure = error
                except LinkBroken as error:
                    failure = ConnectionLost(str(error))
                continue
            if isinstance(following, Sleep):
                await ctx.sleep(following.duration_ns, point=following.point)
                continue
            if isinstance(following, Evictions):
                assert evict is not None
                answer = await evict()
                continue
            point = following.name
            if not ctx.passes(point):
                await ctx.region(point)
            while point in READS_QUEUE and queue.locked:
                declare(ctx, point)
                await self.unlocked.wait(point=LOCKED.point)

    async def panicked(self, ctx: Context, panic: PanicError) -> NoReturn:
        """End the process as a panic does."""
        self.error(f"panic: {panic}; the process exits")
        ctx.faults.crash(ctx.actor)
        while True:
            await ctx.point("scheduler.panic")

    def _moved(self, point: str) -> None:
        """The region behind a point is over."""
        if point not in KEEP_OFF_QUEUE:
            self.queue_moved()

    def queue_moved(self) -> None:
        """Wake the waiting tasks after a region in which pods may have moved."""
        self.ctx.reads("queue")
        queue = self.core.queue
        if self.unlocked.waiters and not queue.locked:
            self.unlocked.notify_all()
        if queue.signalled and queue.take_signal():
            self.poppable.notify_all()
        if self.backing_off.waiters and len(queue.backoff_q):
            self.backing_off.notify_all()
        if self.pooled.waiters and len(queue.unschedulable):
            self.pooled.notify_all()

    async def activate(self, ctx: Context, attempt: Attempt) -> None:
        """Make the pods ready that plugins asked for in the cycle's state, in any order; each request counts once."""
        wanted = attempt.state.read(PODS_TO_ACTIVATE)
        if wanted:
            point = "scheduler.queue.activate"
            await ctx.region(point)
            pods = self.core.handle.choose_order(point, list(wanted.values()))
            wanted.clear()
            steps = self.core.queue.activate(pods, self.now())
            await self.run(ctx, steps, point)

    async def send(self, client: Client, write: ApiWrite) -> None:
        """Make one write of a plugin. Raises ApiError or LinkBroken."""
        resource = RESOURCES.get(write.resource) or Resource("", "v1", write.resource)
        if write.verb == "create":
            if write.subresource == "binding":
                await self._bind(client, write)
            else:
                await client.create(resource, write.body, write.namespace, write.subresource)
        elif write.verb == "update":
            await client.update(resource, write.body, write.subresource)
        elif write.verb == "delete":
            await client.delete(resource, write.namespace, write.name)
        else:
            await client.patch(
                resource, write.namespace, write.name, write.body, subresource=write.subresource
            )

    async def _bind(self, client: Client, write: ApiWrite) -> None:
        """Bind a pod. Raises ApiError or LinkBroken.

        Form "asked-again" of gate 96582 (proposed here; issue 101877 tells the same of later times).
        Upstream an answer that is lost counts as a failure: the room is given to others at once, and
        when the informer shows the pod bound after all, twice as much is promised. With this form
        the call is made again until it is answered, and "bound to that node already" is a success.
        """
        again = self.gates.variant("96582") == "asked-again"
        lost = False
        while True:
            try:
                await client.bind(write.namespace, write.name, write.body)
            except LinkBroken:
                if not again:
                    raise
                lost = True
                await self.ctx.condition().wait(SECOND, point="scheduler.bind.again")
            except ApiError as error:
                if not (lost and is_conflict(error)):
                    raise
                found = await client.get(PODS, write.namespace, write.name)
                metadata = write.body["metadata"]
                bound = found.view.spec.node_name == write.body["target"]["name"]
                if not bound or found.uid != metadata.get("uid", found.uid):
                    raise
                return
            else:
                return

    async def publish(self, client: Client, call: StatusPatchCall) -> None:
        """Patch a pod's status; errors are only logged. With SchedulerAsyncAPICalls the call is only queued."""
        if self.dispatcher is not None:
            self.dispatcher.add(call)
            return
        try:
            await self.patch_status(client, call)
        except (ApiError, LinkBroken) as error:
            self.error(f"updating pod status: {error}")

    async def patch_status(self, client: Client, call: StatusPatchCall) -> None:
        """Make the call, if it changes anything. Raises ApiError or LinkBroken.

        Gate 140177 (proposed here; issue 139602, and D1 of the facts). Upstream the patch goes by
        name and without a precondition. It may come late: when the pod has been retried and bound
        meanwhile, it says of a bound pod that it could not be scheduled, and nothing ever corrects
        that; when the pod has been recreated, it reaches one that it is not about. With the proposal
        it holds for the version that it was made from; on a conflict it is made anew from the
        current one, unless that is another pod or has a node. A call may have been made from a
        stand-in that has no version (a nominated pod that is in no queue), and may have taken over
        the condition of an earlier one: it is made anew before it is sent. A call after which another
        one about the same pod was decided is not made anew: it would take back what that one says.
        """
        uid = call.pod.uid
        self._newest[uid] = call
        try:
            await self._patch_status(client, call)
        finally:
            if self._newest.get(uid) is call:
                del self._newest[uid]

    async def _patch_status(self, client: Client, call: StatusPatchCall) -> None:
        while True:
            patch = call.patch(self.now())
            if patch is None:
                return
            refused: ApiError | None = None
            if patch.version or not self.guards:
                try:
                    await self.send_patch(client, patch)
                except ApiError as error:
                    if not (self.guards and is_conflict(error)):
                        raise
                    refused = error
                else:
                    return
            found = await client.get(PODS, patch.namespace, patch.name)
            if found.uid != patch.uid or found.view.spec.node_name:
                return
            if refused is not None and self._newest.get(patch.uid) is not call:
                return
            if refused is not None and found.view.resource_version == patch.version:
                raise refused
            call.pod = found.view

    async def send_patch(self, client: Client, patch: StatusPatch) -> None:
        """Patch a pod's status, with gate 140177 only in the version it was made from. Raises ApiError, LinkBroken."""
        body = patch.patch
        if self.guards:
            made_from = {"uid": patch.uid, "resourceVersion": patch.version}
            body = {"metadata": {key: of for key, of in made_from.items() if of}, **body}
        await client.patch(PODS, patch.namespace, patch.name, body, subresource="status")

    async def annotate(self, client: Client, attempt: Attempt) -> None:
        """Write what the plugins said to the pod's annotations, when that was asked for."""
        found = attempt.explanation
        if found is None:
            return
        pod = attempt.pod
        self.ctx.log("scheduler.explained", obj=f"Pod/{pod.key}", uid=pod.uid, data=found.summary())
        cached = self.cached_pod(pod.key)
        if cached is None or cached.uid != pod.uid:
            return
        written = explain.with_history(found, cached.metadata.get("annotations") or {})
        patch = {"metadata": {"uid": pod.uid, "annotations": written}}
        try:
            await client.patch(PODS, pod.namespace, pod.name, patch)
            self.ctx.reads()
        except (ApiError, LinkBroken) as error:
            self.error(f"explaining {pod.key}: {error}")

    def begin(self, ctx: Context, info: QueuedPodInfo) -> Attempt | None:
        """Start an attempt for a popped pod, behind `scheduler.cycle.start`; None if it needs none."""
        ctx.reads("cache", "pops")
        if self.core.skips(info):
            ctx.writes("queue")
        begun = self.core.begin(info, self.now())
        if not isinstance(begun, Skipped):
            return begun
        self.skipped(begun.info, begun.reason, begun.event)
        return None

    def skipped(self, info: QueuedPodInfo, reason: str, event: EventIntent | None) -> None:
        """A popped pod needs no attempt."""
        data = {"reason": reason}
        self.ctx.log("scheduler.skip", level=DEBUG, obj=obj_of(info), uid=info.uid, data=data)
        if event is not None:
            self.record(event)

    def error(self, message: str) -> None:
        """A line in the log about something that went wrong."""
        self.ctx.log("scheduler.error", level=WARNING, data={"message": message})

    def record(self, event: EventIntent) -> None:
        """Record an Event."""
        self.recorder.event(event.regarding, event.type, event.reason, event.note)


def declare(ctx: Context, point: str) -> None:
    """Say what the region behind a point touches."""
    if ctx.is_noted:
        reads, writes = TOUCHES.get(point, NOTHING)
        ctx.reads(*reads)
        ctx.writes(*writes)


def obj_of(info: QueuedPodInfo) -> str:
    """Return the name of the pod in the log."""
    return f"Pod/{info.key}"


def note_popped(ctx: Context, info: QueuedPodInfo) -> None:
    """Note which object came out of the queue."""
    version = int(info.pod.resource_version or 0)
    ctx.note("scheduler.popped", obj=obj_of(info), uid=info.uid, rv=version)


def note_read(ctx: Context, info: QueuedPodInfo, found: Object[Pod] | None) -> None:
    """Note what the informer had under the name of a pod whose attempt failed."""
    data = {"popped": info.uid, "found": found is not None}
    if found is None:
        ctx.note("scheduler.read", obj=obj_of(info), data=data)
    else:
        ctx.note(
            "scheduler.read", obj=obj_of(info), uid=found.uid, rv=found.resource_version, data=data
        )


def note_belief(ctx: Context, info: QueuedPodInfo, node: NodeInfo | None) -> None:
    """Note what the snapshot says of the node that was chosen, without the pod itself."""
    if node is None:
        return
    data = {
        "node": node.name,
        "node_rv": int(node.node.resource_version or 0) if node.node is not None else 0,
        "pods": [each.pod.key for each in node.pods],
        "requested": {"cpu_milli": node.requested.milli_cpu, "memory": node.requested.memory},
        "allocatable": {"cpu_milli": node.allocatable.milli_cpu, "memory": node.allocatable.memory},
    }
    version = int(info.pod.resource_version or 0)
    ctx.note("scheduler.believed", obj=obj_of(info), uid=info.uid, rv=version, data=data)
