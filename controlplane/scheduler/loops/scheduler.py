"""Loops of the scheduler: informers feed cache and queue, one task schedules, a pool binds, two tasks keep time.

Scheduling cycles never overlap; binding cycles overlap each other and later scheduling cycles. What
upstream does under one lock is one step here, and between two locks others may come; all points stand
in `points`. The binding cycle is in `binding`, evictions in `preemption`, what is watched in `informers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from actors.inlet import Outlet
from actors.log import INFO, WARNING
from controlplane.api.identity import uid
from controlplane.api.resize_policy import resize_waits
from controlplane.client.loops.clientset import Client
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.scheduler.cycle import binding, explain, failure
from controlplane.scheduler.cycle.attempt import Attempt
from controlplane.scheduler.cycle.scheduling import eviction_failed
from controlplane.scheduler.framework.notified import ResyncedPlugin
from controlplane.scheduler.framework.panic import PanicError
from controlplane.scheduler.loops.binding import Binder
from controlplane.scheduler.loops.informers import Informers
from controlplane.scheduler.loops.pod_groups import GroupScheduler
from controlplane.scheduler.loops.preemption import Preemptor
from controlplane.scheduler.loops.rest import Rest
from controlplane.scheduler.loops.shared import (
    Observer,
    Shared,
    declare,
    note_belief,
    note_popped,
    note_read,
    obj_of,
)
from controlplane.scheduler.metrics import ERROR, UNSCHEDULABLE
from controlplane.scheduler.queue.flushes import (
    BACKOFF_FLUSH_PERIOD,
    UNSCHEDULABLE_FLUSH_PERIOD,
)
from controlplane.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from actors import Condition, Context
    from controlplane.api.device_selection import SelectDevice
    from controlplane.api.usage import UsageSource
    from controlplane.client.loops.connection import RestConfig
    from controlplane.gates import FixGates
    from controlplane.scheduler.config.model import SchedulerConfig
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.metrics import SchedulingMetrics
    from controlplane.scheduler.plugins.registry import Registry

HOPELESS_ERRORS = 8
"""A pod that failed with an error so often in a row no longer keeps a run from settling; it is still retried.

So is a member of a pod group after as many attempts: a group that cannot be scheduled is retried for ever.
"""
FREE_TRIES = 4
"""The number of attempts of a pod that are not followed by a rest, where a plugin has pods made ready at once."""


RESYNC = "scheduler.plugin.resync"
EXPIRY_PERIOD = 1_000_000_000
PARTS_OF_QUEUE = {
    "scheduling_cycle": "pops",
    "is_interesting": "",
    "options": "",
}
"""Parts of the queue that are counted apart, for the check of the footprints of steps."""


class Probe:
    """Lets checks and measurements from outside look at the scheduler that is running now."""

    def __init__(self) -> None:
        self.core: Scheduler | None = None
        self.started = 0
        """The step in which it was started."""
        self.observer: Observer | None = None
        self.metrics: SchedulingMetrics | None = None
        """Metrics of that scheduler."""
        self.poppable: Condition | None = None
        """The condition on which the scheduling task sleeps while the queue has no pod to pop."""
        self.missing: Callable[[], Sequence[str]] = tuple
        """Return the custom resources for which the scheduler waits before it schedules anything."""
        self.searched = Outlet()
        """Told of every attempt as soon as it has looked for a node, and where its search began."""


@frozen
class SchedulerOptions:
    """The way in which a scheduler is started.

    Args:
        features: feature gates that differ from the release's defaults. A change takes effect at the next start.
        registry: all plugins there are; the in-tree ones by default.
        watched: limits the resources that are watched besides pods and nodes (names of listers); None: those
            that the plugins need.
        joined_informers: makes the informers of pods and nodes one task each.
        explaining: lets every attempt leave the answers of the plugins in the log and on the pod.
        devices: claims, slices and classes of devices are watched from the start, not only once a pod names a claim.
        select: answers the selectors of devices; None where there is no expression language.
        usage: tells the usage of pods, for plugins that go by it; without it their annotations do.
    """

    features: Mapping[str, bool] | None = None
    registry: Registry | None = None
    watched: Collection[str] | None = None
    joined_informers: bool = False
    explaining: bool = False
    devices: bool = False
    select: SelectDevice | None = None
    usage: UsageSource | None = None


DEFAULT_OPTIONS = SchedulerOptions()


async def run(
    ctx: Context,
    epoch_ns: int,
    config: SchedulerConfig,
    gates: FixGates,
    probe: Probe,
    *,
    options: SchedulerOptions = DEFAULT_OPTIONS,
    server: RestConfig = IN_CLUSTER,
) -> None:
    """Main task.

    Args:
        ctx: the actor's context.
        epoch_ns: wall time of virtual 0.
        config: profiles and so on.
        gates: fix gates.
        probe: where the running scheduler shows itself.
        options: features, plugins, and what is watched.
        server: the transport to the API servers.
    """

    def order(kind: str, found: list[Any]) -> list[Any]:
        """An order that upstream leaves to a map: any rotation of the canonical one."""
        if len(found) < 2:
            return found
        first = ctx.choose(kind, len(found), kind)
        return found[first:] + found[:first]

    informers = Informers(ctx, server, joined=options.joined_informers, gates=gates)
    core = Scheduler(
        informers.listers,
        config=config,
        features=options.features,
        registry=options.registry,
        choose_order=order,
        choose_offset=lambda kind, n: ctx.choose(kind, n, kind),
        log=lambda line: ctx.log("scheduler.error", level=WARNING, data={"message": line}),
        fixes=gates,
        select=options.select,
        clock=lambda: epoch_ns + ctx.now,
        custom=informers.custom,
        usage=options.usage,
    )
    core.handle.new_uid = lambda: uid(ctx.serial())
    probe.core = core
    probe.missing = informers.missing
    probe.started = ctx.step
    shared = Shared(
        ctx,
        core,
        epoch_ns,
        gates,
        informers.failed_pod,
        server,
        probe.observer,
        probe.searched,
        explaining=options.explaining,
    )
    core.handle.record = shared.record
    core.handle.held_back = lambda pod, plugin, why: ctx.log(
        "scheduler.gated",
        obj=f"Pod/{pod.key}",
        uid=pod.uid,
        data={"plugin": plugin, "message": why},
    )
    probe.poppable = shared.poppable
    probe.metrics = shared.metrics
    if shared.dispatcher is not None:
        ctx.spawn(shared.dispatcher.run, name="api dispatcher")
    # Plugins read the states of pod groups, which follow the cache.
    changed = ("cache", "plugins") if core.schedules_groups else ("cache",)
    core.changes_cache = lambda: ctx.writes(*changed)
    handle = core.handle
    ctx.part("queue", core.queue, core.queue.active_q, core.queue.backoff_q, apart=PARTS_OF_QUEUE)
    ctx.part("cache", core.cache, apart={"expires": ""})
    ctx.part("cycle", handle.snapshot, handle.columns, core.search)
    ctx.part("plugins", *core.all_plugins)
    dra = handle.dra
    ctx.part("plugins", dra, dra.extended, dra.tracker, dra.tracker.cache, dra.tracker.devices)
    running = _Running(shared)
    await informers.start(shared, options.watched, devices=options.devices)
    await running.fill_caches(ctx)
    ctx.spawn(running.flush_backoff, name="backoff")
    ctx.spawn(running.flush_unschedulable, name="unschedulable")
    if core.cache.expires:
        ctx.spawn(running.expire_assumed, name="assumed")
    try:
        await running.schedule_forever(ctx)
    except PanicError as panic:  # in the order of the queue, when a pod is popped
        await shared.panicked(ctx, panic)


class _Running:
    """The scheduling task and the timers."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._core = shared.core
        self._binder = Binder(shared, self._failed)
        self._preemptor = Preemptor(shared)
        self._rest = Rest()
        self._groups = GroupScheduler(
            shared, self._preemptor, self._assume, self._accept, self._failed, self._rest
        )
        self._activates = any(plugin.activates for plugin in shared.core.all_plugins)
        self._resizes = shared.core.handle.preempts_for_resizes
        self._unlocked = not shared.gates.fixed("139884")

    # ------------------------------------------------------------------ timers

    async def flush_backoff(self, ctx: Context) -> None:
        """Every whole second upstream; here only in those seconds in which a backoff can end."""
        queue = self._core.queue
        shared = self._shared
        while True:
            declare(ctx, "scheduler.flush.backoff")
            release = queue.next_backoff_release()
            if release is None:
                await shared.backing_off.wait(idle=True, point="scheduler.flush.backoff")
                continue
            ticks = -(-release // BACKOFF_FLUSH_PERIOD)
            at = ticks * BACKOFF_FLUSH_PERIOD - shared.epoch
            await ctx.sleep_until(at, idle=self._hopeless(), point="scheduler.flush.backoff")
            declare(ctx, "scheduler.flush.backoff")
            steps = queue.flush_backoff(shared.now())
            await shared.run(ctx, steps, "scheduler.flush.backoff")

    def _hopeless(self) -> bool:
        backoff_q = self._core.queue.backoff_q
        if len(backoff_q.heap) and not (self._core.schedules_groups or self._activates):
            return False
        return all(self._is_hopeless(info, rejected=True) for info in backoff_q.heap) and all(
            self._is_hopeless(info, rejected=False) for info in backoff_q.error_heap
        )

    def _is_hopeless(self, info: QueuedPodInfo, *, rejected: bool) -> bool:
        """Return whether a pod in backoff need not be waited for."""
        if self._core.schedules_groups and info.pod.spec.scheduling_group is not None:
            return info.attempts > HOPELESS_ERRORS
        if self._activates and rejected:
            return info.attempts > HOPELESS_ERRORS + FREE_TRIES
        return not rejected and info.consecutive_errors_count > HOPELESS_ERRORS

    async def flush_unschedulable(self, ctx: Context) -> None:
        """Every 30 s upstream; here only at those ticks at which a pod has waited long enough."""
        queue = self._core.queue
        shared = self._shared
        while True:
            declare(ctx, "scheduler.flush.unschedulable")
            due = queue.next_unschedulable_timeout()
            if due is None:
                await shared.pooled.wait(idle=True, point="scheduler.flush.unschedulable")
                continue
            # A gated pod may stay over its time; it is looked at again at the next tick.
            ticks = max(
                -(-(due - shared.epoch) // UNSCHEDULABLE_FLUSH_PERIOD),
                ctx.now // UNSCHEDULABLE_FLUSH_PERIOD + 1,
            )
            at = ticks * UNSCHEDULABLE_FLUSH_PERIOD
            await ctx.sleep_until(at, idle=True, point="scheduler.flush.unschedulable")
            declare(ctx, "scheduler.flush.unschedulable")
            steps = queue.flush_unschedulable(shared.now())
            await shared.run(ctx, steps, "scheduler.flush.unschedulable")

    async def expire_assumed(self, ctx: Context) -> None:
        """Every second upstream; here only at those ticks at which an assumption ends (gate 106412)."""
        cache = self._core.cache
        shared = self._shared
        while True:
            declare(ctx, "scheduler.cache.expire")
            due = cache.next_expiry()
            if due is None:
                await shared.assumed.wait(idle=True, point="scheduler.cache.expire")
                continue
            at = ((due - shared.epoch) // EXPIRY_PERIOD + 1) * EXPIRY_PERIOD
            await ctx.sleep_until(at, idle=True, point="scheduler.cache.expire")
            declare(ctx, "scheduler.cache.expire")
            for pod in cache.expire_assumed(shared.now()):
                data = {"node": pod.spec.node_name}
                ctx.log("scheduler.expired", obj=f"Pod/{pod.key}", uid=pod.uid, data=data)

    async def fill_caches(self, ctx: Context) -> None:
        """Let plugins fill their caches, and begin the passes that bring them up to date."""
        for plugin in self._core.all_plugins:
            if not isinstance(plugin, ResyncedPlugin):
                continue
            ctx.reads("plugins")
            if plugin.resync_period:
                await self._shared.run(ctx, plugin.fill(), RESYNC)
                ctx.spawn(self._resync, plugin, name=f"resync {plugin.name}")

    async def _resync(self, ctx: Context, plugin: ResyncedPlugin) -> None:
        """Passes at their interval; what stays as it is for many of them is not waited for."""
        fruitless = 0
        while True:
            changed = await self._shared.run(ctx, plugin.resync(), RESYNC)
            ctx.reads("plugins")
            awaits = plugin.awaits_resync
            fruitless = fruitless + 1 if awaits and not changed else 0
            idle = not awaits or fruitless > HOPELESS_ERRORS
            await ctx.sleep(plugin.resync_period, idle=idle, point=RESYNC)

    # ------------------------------------------------------------------ the scheduling task

    async def schedule_forever(self, ctx: Context) -> None:
        """One scheduling cycle after the other.

        Gate 139884 (proposed; issue 130976). Upstream Pop looks at both queues under its own lock
        before it waits, but a pod enters the backoff queue, and the signal is given, without that
        lock: a signal in between is lost, and the pod is popped when the next one comes. With the
        proposal the signal waits for the lock, so Pop hears it.
        """
        queue = self._core.queue
        poppable = self._shared.poppable
        client = Client(ctx, self._shared.server)
        ordered_by = self._core.ordered_by
        while True:
            ctx.reads(*ordered_by)
            ctx.writes("queue", "pops")
            info = queue.pop()
            while info is None:
                await ctx.region("scheduler.queue.wait")
                ctx.reads(*ordered_by)
                ctx.writes("queue", "pops")
                # What becomes active does so under Pop's lock, so that is never missed.
                if len(queue.active_q.heap) or (queue.can_pop() and not self._unlocked):
                    info = queue.pop()
                    continue
                await poppable.wait(idle=True, point="scheduler.queue.pop")
                ctx.reads(*ordered_by)
                ctx.writes("queue", "pops")
                info = queue.pop()
            if ctx.noting:
                note_popped(ctx, info)
            await self._schedule_one(ctx, client, info)
            ctx.reads("queue")
            if self._rest.pause:
                await self._take_rest(ctx)
            if queue.can_pop():
                await ctx.point("scheduler.queue.pop")

    async def _take_rest(self, ctx: Context) -> None:
        """Let time pass after a cycle that came to nothing, unless another pod is active (see `loops.rest`)."""
        queue, rest = self._core.queue, self._rest
        end, idle = ctx.now + rest.pause, rest.hopeless
        rest.pause = 0
        while not len(queue.active_q.heap) and ctx.now < end:
            left = end - ctx.now
            await self._shared.poppable.wait(left, idle=idle, point="scheduler.group.rest")
            ctx.reads("queue")

    async def _schedule_one(self, ctx: Context, client: Client, info: QueuedPodInfo) -> None:
        core, shared = self._core, self._shared
        if core.schedules_groups and info.pod.spec.scheduling_group is not None:
            await self._groups.schedule(ctx, client, info)
            return
        await ctx.region("scheduler.cycle.start")
        attempt = shared.begin(ctx, info)
        if attempt is None:
            return
        if shared.observer is not None:
            shared.observer.attempt_started(info.uid)
        await ctx.region("scheduler.cycle.snapshot")
        declare(ctx, "scheduler.cycle.snapshot")
        core.update_snapshot(attempt)
        start = core.search.next_start_node_index
        await ctx.region("scheduler.cycle.pre-filter")
        await shared.run(ctx, core.find_node(attempt), "scheduler.cycle.pre-filter")
        ctx.writes("cycle")
        if shared.explaining:
            attempt.explanation = explain.explain(core.search, attempt, start)
        shared.searched.put((attempt, start))
        if shared.observer is not None:
            shared.observer.algorithm_ended(info.uid)
        if attempt.failure is None:
            shared.metrics.algorithm.observe(shared.now() - attempt.started)
        if attempt.failure is None and self._resizes and resize_waits(attempt.pod):
            await ctx.region("scheduler.cycle.permit")
            declare(ctx, "scheduler.cycle.permit")
            binding.park(attempt)
        elif attempt.failure is None:
            await self._assume(ctx, attempt)
        elif core.handle.preemptions:
            problem = await self._preemptor.take(ctx, client)
            if problem:
                attempt.failure = eviction_failed(attempt.failure, problem)
        if attempt.failure is not None:
            if self._activates:
                self._rest.failed(info.uid, FREE_TRIES)
            await self._failed(ctx, client, attempt)
            return
        await self._accept(ctx, attempt, info)

    async def _assume(self, ctx: Context, attempt: Attempt) -> None:
        """Give the pod the node that was found, in memory; a failure is set when that is refused."""
        core, shared = self._core, self._shared
        await ctx.region("scheduler.cycle.assume")
        if core.schedules_groups:
            ctx.writes("plugins")
        steps = binding.assume(core.cache, core.queue, attempt)
        await shared.run(ctx, steps, "scheduler.cycle.assume")
        if attempt.failure is None:
            await ctx.region("scheduler.cycle.reserve")
            reserving = binding.reserve_and_permit(core.cache, attempt, core.queue)
            await shared.run(ctx, reserving, "scheduler.cycle.reserve")
        if attempt.explanation is not None:
            explain.reserved(attempt.explanation, attempt)

    async def _accept(self, ctx: Context, attempt: Attempt, info: QueuedPodInfo) -> None:
        """Begin the binding cycle of an assumed pod."""
        core, shared = self._core, self._shared
        ctx.writes("bindings")
        self._binder.admit(attempt)
        await shared.activate(ctx, attempt)
        ctx.writes("bindings")
        assert attempt.result is not None
        data = {
            "node": attempt.node_name,
            "evaluated": attempt.result.evaluated_nodes,
            "feasible": attempt.result.feasible_nodes,
            "attempt": info.attempts,
        }
        if attempt.scores is not None:
            data["scores"] = attempt.scores
        if core.handle.dra.patches is not None:
            ctx.reads("plugins")
            met = explain.rules_met(attempt)
            if met:
                data["taint_rules"] = met
        ctx.log("scheduler.assumed", obj=obj_of(info), uid=info.uid, data=data)
        if ctx.noting:
            ctx.reads("cycle")
            note_belief(ctx, info, core.handle.snapshot.get(attempt.node_name))
        self._binder.start(attempt)

    # ------------------------------------------------------------------ failure

    async def _failed(self, ctx: Context, client: Client, attempt: Attempt) -> None:
        """The failure handler. Between reading the pod and putting it back, anything may happen (gate 138324).

        In a binding cycle it runs beside the scheduling task, which may pop the pod before its
        flight has ended (gate 139450).
        """
        shared = self._shared
        core, info, failed = self._core, attempt.info, attempt.failure
        assert failed is not None
        pod = attempt.pod
        reason = failure.record(info, failed)
        result = UNSCHEDULABLE if failed.is_rejected else ERROR
        shared.metrics.ended(attempt, result, shared.now())
        if shared.observer is not None:
            shared.observer.attempt_ended(attempt.popped_uid, result)
        await ctx.region("scheduler.failure.read")
        ctx.reads()
        cached = shared.cached_pod(pod.key)
        if ctx.noting:
            note_read(ctx, info, cached)
        verdict = failure.judge(
            info,
            None if cached is None else cached.view,
            shared.gates,
            resizes=self._resizes,
        )
        await ctx.region("scheduler.failure.requeue")
        ctx.reads("pops")
        requeue = failure.requeue(core.queue, info, verdict, shared.now())
        problem = await shared.run(ctx, requeue, "scheduler.failure.requeue")
        data: dict[str, Any] = {
            "reason": reason,
            "message": failed.message,
            "outcome": verdict.outcome.value,
            "attempt": info.attempts,
        }
        if failed.fit_error is not None:
            data["nodes"] = failed.fit_error.num_all_nodes
            data["refused"] = explain.refusals(failed.fit_error)
            claims = explain.claims(attempt)
            if claims:
                data["claims"] = claims
        if problem or verdict.log:
            data["note"] = problem or verdict.log
        ctx.log("scheduler.failed", level=INFO, obj=obj_of(info), uid=pod.uid, data=data)
        if not verdict.reports:
            return
        await ctx.region("scheduler.failure.nominate")
        ctx.writes("queue")
        failure.nominate(core.queue, info, failed.nominating, shared.gates)
        if not failed.message:
            return
        report = failure.report(pod, failed, reason, shared.now())
        shared.record(report.event)
        await shared.publish(client, report.call)
        await shared.annotate(client, attempt)
