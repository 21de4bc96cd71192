"""How the scheduler lives: informers feed cache and queue, one task schedules, one task per pod binds, two keep time.

Scheduling cycles never overlap; binding cycles overlap each other and later scheduling cycles. What
upstream does under one lock is one step here. Points, each before the operation it names:

    scheduler.queue.pop          wait for a pod
    scheduler.cycle.snapshot     bring the snapshot up to date
    scheduler.cycle.assume       count the pod on the chosen node
    scheduler.bind.start         the binding cycle begins
    scheduler.failure.read       read the pod from the informer by its name
    scheduler.failure.requeue    put it back
    scheduler.failure.report     patch its status
    scheduler.flush.backoff, scheduler.flush.unschedulable    timer bodies
    informer.notify              an informer hands one change to cache and queue
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LinkBroken
from actors.log import DEBUG, INFO, WARNING
from controlplane.client.clientset import NODES, PODS, Client, Resource
from controlplane.client.errors import ApiError
from controlplane.client.events import EventRecorder
from controlplane.client.indexer import Indexer
from controlplane.client.informer import Informer, handler
from controlplane.scheduler import binding, eventhandlers, failure
from controlplane.scheduler.attempt import Attempt, EventIntent, StatusPatch
from controlplane.scheduler.listers import Listers
from controlplane.scheduler.queue.scheduling_queue import (
    BACKOFF_FLUSH_PERIOD,
    UNSCHEDULABLE_FLUSH_PERIOD,
)
from controlplane.scheduler.scheduler import Scheduler, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import Context
    from controlplane.api.object import Object
    from controlplane.gates import FixGates
    from controlplane.scheduler.config import SchedulerConfig
    from controlplane.scheduler.framework.interface import ApiWrite
    from controlplane.scheduler.queue.queued_pod_info import QueuedPodInfo

COMPONENT = "default-scheduler"
NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
HOPELESS_ERRORS = 8
"""A pod that failed with an error so often in a row no longer keeps a run from settling; it is still retried."""


class Probe:
    """Lets checks from outside look at the scheduler that is running now."""

    def __init__(self) -> None:
        self.core: Scheduler | None = None


class _Lister:
    """An informer's store as the lister that plugins read."""

    def __init__(self, store: Indexer) -> None:
        self._store = store

    def get(self, namespace: str, name: str) -> Any:
        """The view as last heard, None when absent."""
        found = self._store.get(f"{namespace}/{name}" if namespace else name)
        return None if found is None else found.view

    def list(self) -> Iterator[Any]:
        """All views."""
        return (obj.view for obj in self._store)


async def run(
    ctx: Context,
    epoch_ns: int,
    config: SchedulerConfig,
    gates: FixGates,
    probe: Probe,
    *,
    queueing_hints: bool = True,
    server: str = "apiserver",
) -> None:
    """Main task."""
    pods = Informer(ctx, PODS, server=server, fieldSelector=NOT_FINISHED)
    nodes = Informer(ctx, NODES, server=server)

    def order(kind: str, found: list[Any]) -> list[Any]:
        """An order that upstream leaves to a map: any rotation of the canonical one."""
        if len(found) < 2:
            return found
        first = ctx.choose(kind, len(found), kind)
        return found[first:] + found[:first]

    core = Scheduler(
        Listers(pods=_Lister(pods.store), nodes=_Lister(nodes.store)),
        config=config,
        features={"SchedulerQueueingHints": queueing_hints},
        choose_order=order,
        choose_offset=lambda kind, n: ctx.choose(kind, n, kind),
        log=lambda line: ctx.log("scheduler.error", level=WARNING, data={"message": line}),
    )
    probe.core = core
    running = _Running(ctx, core, epoch_ns, gates, pods.store, server)
    pods.add_handler(running.pod_handler(), "scheduler")
    nodes.add_handler(running.node_handler(), "scheduler")
    pods.start()
    nodes.start()
    await nodes.wait_synced()
    await pods.wait_synced()
    ctx.spawn(running.flush_backoff, name="backoff")
    ctx.spawn(running.flush_unschedulable, name="unschedulable")
    await running.schedule_forever(ctx)


class _Running:
    """What the scheduler's tasks share."""

    def __init__(
        self,
        ctx: Context,
        core: Scheduler,
        epoch_ns: int,
        gates: FixGates,
        pods: Indexer,
        server: str,
    ) -> None:
        self._ctx = ctx
        self._core = core
        self._epoch = epoch_ns
        self._gates = gates
        self._pods = pods
        self._server = server
        self._poppable = ctx.condition()
        self._backing_off = ctx.condition()
        self._pooled = ctx.condition()
        self._recorder = EventRecorder(ctx, COMPONENT, epoch_ns, server=server)

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    def _queue_moved(self) -> None:
        """After anything that may have moved pods: wake whoever waits for it."""
        queue = self._core.queue
        if queue.can_pop():
            self._poppable.notify_all()
        if len(queue.backoff_q):
            self._backing_off.notify_all()
        if len(queue.unschedulable):
            self._pooled.notify_all()

    # ------------------------------------------------------------------ informers

    def _handle(self, call: Callable[..., None], *arguments: Any, **named: Any) -> None:
        call(self._core, *arguments, self._now(), **named)
        self._queue_moved()

    def pod_handler(self) -> Any:
        """What is done about a change of a pod."""
        return handler(
            lambda obj: self._handle(eventhandlers.add_pod, obj.view),
            lambda old, new: self._handle(eventhandlers.update_pod, old.view, new.view),
            lambda obj, unknown: self._handle(
                eventhandlers.delete_pod, obj.view, final_state_unknown=unknown
            ),
        )

    def node_handler(self) -> Any:
        """What is done about a change of a node."""

        def deleted(obj: Object, _unknown: bool) -> None:
            self._handle(eventhandlers.delete_node, obj.view)

        return handler(
            lambda obj: self._handle(eventhandlers.add_node, obj.view),
            lambda old, new: self._handle(eventhandlers.update_node, old.view, new.view),
            deleted,
        )

    # ------------------------------------------------------------------ timers

    async def flush_backoff(self, ctx: Context) -> None:
        """Every whole second upstream; here only in those seconds in which a backoff can end."""
        queue = self._core.queue
        while True:
            release = queue.next_backoff_release()
            if release is None:
                await self._backing_off.wait(idle=True, point="scheduler.flush.backoff")
                continue
            ticks = -(-release // BACKOFF_FLUSH_PERIOD)
            at = ticks * BACKOFF_FLUSH_PERIOD - self._epoch
            await ctx.sleep_until(at, idle=self._hopeless(), point="scheduler.flush.backoff")
            queue.flush_backoff(self._now())
            self._queue_moved()

    def _hopeless(self) -> bool:
        queue = self._core.queue
        if len(queue.backoff_q.heap):
            return False
        return all(
            info.consecutive_errors_count > HOPELESS_ERRORS for info in queue.backoff_q.error_heap
        )

    async def flush_unschedulable(self, ctx: Context) -> None:
        """Every 30 s upstream; here only at those ticks at which a pod has waited long enough."""
        queue = self._core.queue
        while True:
            due = queue.next_unschedulable_timeout()
            if due is None:
                await self._pooled.wait(idle=True, point="scheduler.flush.unschedulable")
                continue
            ticks = -(-(due - self._epoch) // UNSCHEDULABLE_FLUSH_PERIOD)
            at = ticks * UNSCHEDULABLE_FLUSH_PERIOD
            await ctx.sleep_until(at, idle=True, point="scheduler.flush.unschedulable")
            queue.flush_unschedulable(self._now())
            self._queue_moved()

    # ------------------------------------------------------------------ the scheduling task

    async def schedule_forever(self, ctx: Context) -> None:
        """One scheduling cycle after the other."""
        queue = self._core.queue
        client = Client(ctx, self._server)
        while True:
            info = queue.pop()
            while info is None:
                await self._poppable.wait(idle=True, point="scheduler.queue.pop")
                info = queue.pop()
            await self._schedule_one(ctx, client, info)
            if queue.can_pop():
                await ctx.point("scheduler.queue.pop")

    async def _schedule_one(self, ctx: Context, client: Client, info: QueuedPodInfo) -> None:
        core = self._core
        begun = core.begin(info, self._now())
        if isinstance(begun, Skipped):
            ctx.log(
                "scheduler.skip",
                level=DEBUG,
                obj=_obj(info),
                uid=info.uid,
                data={"reason": begun.reason},
            )
            if begun.event is not None:
                self._record(begun.event)
            return
        attempt = begun
        await ctx.point("scheduler.cycle.snapshot")
        core.update_snapshot(attempt)
        core.find_node(attempt)
        if attempt.failure is None:
            await ctx.point("scheduler.cycle.assume")
            binding.assume(core.cache, core.queue, attempt)
            if attempt.failure is None:
                binding.reserve_and_permit(core.cache, attempt)
        if attempt.failure is not None:
            await self._failed(ctx, client, attempt)
            return
        assert attempt.result is not None
        data = {
            "node": attempt.node_name,
            "evaluated": attempt.result.evaluated_nodes,
            "feasible": attempt.result.feasible_nodes,
            "attempt": info.attempts,
        }
        ctx.log("scheduler.assumed", obj=_obj(info), uid=info.uid, data=data)
        ctx.spawn(self._bind, attempt, name="bind")

    # ------------------------------------------------------------------ the binding task

    async def _bind(self, ctx: Context, attempt: Attempt) -> None:
        core = self._core
        client = Client(ctx, self._server)
        nomination = binding.pre_bind_pre_flight(attempt)
        if nomination is not None:
            await self._patch(ctx, client, nomination)
        if attempt.failure is None:
            binding.permit_wait_over(core.queue, attempt, None)
        if attempt.failure is None:
            for plugin, write in binding.pre_bind(attempt):
                if not await self._write(ctx, client, attempt, plugin, write):
                    break
        if attempt.failure is None:
            bind = binding.bind(attempt)
            if bind is not None and await self._write(ctx, client, attempt, "DefaultBinder", bind):
                self._record(binding.bound(attempt))
                return
        later = binding.undo(core.cache, core.queue, attempt, self._now())
        self._queue_moved()
        await self._failed(ctx, client, attempt)
        if later:
            binding.after_failure(core.queue, attempt, self._now())
            self._queue_moved()

    async def _write(
        self, ctx: Context, client: Client, attempt: Attempt, plugin: str, write: ApiWrite
    ) -> bool:
        """Make one write of a plugin; False (and a failure of the attempt) when the server refuses."""
        try:
            if write.resource == "pods" and write.subresource == "binding":
                await client.bind(write.namespace, write.name, write.body)
            else:
                resource = Resource("", "v1", write.resource)
                await client.patch(
                    resource, write.namespace, write.name, write.body, subresource=write.subresource
                )
        except (ApiError, LinkBroken) as error:
            binding.bind_error(attempt, plugin, str(error))
            return False
        return True

    # ------------------------------------------------------------------ failure

    async def _failed(self, ctx: Context, client: Client, attempt: Attempt) -> None:
        """The failure handler. Between reading the pod and putting it back, anything may happen (gate 138324)."""
        core, info, failed = self._core, attempt.info, attempt.failure
        assert failed is not None
        pod = attempt.pod
        reason = failure.record(info, failed)
        await ctx.point("scheduler.failure.read")
        cached = self._pods.get(pod.key)
        verdict = failure.judge(info, None if cached is None else cached.view, self._gates)
        await ctx.point("scheduler.failure.requeue")
        problem = failure.requeue(core.queue, info, verdict, self._now())
        self._queue_moved()
        data = {"reason": reason, "message": failed.message, "outcome": verdict.outcome.value}
        if problem or verdict.log:
            data["note"] = problem or verdict.log
        ctx.log("scheduler.failed", level=INFO, obj=_obj(info), uid=pod.uid, data=data)
        if not verdict.reports:
            return
        failure.nominate(core.queue, info, failed.nominating)
        report = failure.report(pod, failed, reason, self._now())
        self._record(report.event)
        if report.patch is not None:
            await self._patch(ctx, client, report.patch)

    async def _patch(self, ctx: Context, client: Client, patch: StatusPatch) -> None:
        """Patch a pod's status, by name and without a precondition, as upstream does; errors are only logged."""
        try:
            await client.patch(PODS, patch.namespace, patch.name, patch.patch, subresource="status")
        except (ApiError, LinkBroken) as error:
            ctx.log(
                "scheduler.error", level=WARNING, data={"message": f"updating pod status: {error}"}
            )

    def _record(self, event: EventIntent) -> None:
        self._recorder.event(event.regarding, event.type, event.reason, event.note)


def _obj(info: QueuedPodInfo) -> str:
    return f"Pod/{info.key}"
