"""Evictions: what a PostFilter decided is carried out by tasks of their own, while scheduling goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from controlplane.client.errors import ApiError, is_conflict, is_invalid, is_not_found
from controlplane.client.loops.clientset import PODS, Client
from controlplane.scheduler.framework import preemption_task as tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.preemption_task import PreemptionTask
    from controlplane.scheduler.loops.shared import Shared

WAITING_MESSAGE = "preempted"
CANCEL_CAUSE = "preempted by {}"


class Preemptor:
    """Carries out preemptions."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._asynchronous = shared.core.handle.feature("SchedulerAsyncPreemption")
        self._activates = shared.gates.fixed("142294")
        self._stopped: dict[str, None] = {}
        """UIDs of victims that were stopped in memory."""

    async def take(self, ctx: Context, client: Client) -> str:
        """Carry out what was decided since the last call.

        Asynchronously (the default) that only starts tasks. Otherwise it is all done within the
        scheduling cycle; answers an error text, "" when all went well.
        """
        ctx.writes("cycle")
        for task in self._shared.core.take_preemptions():
            self._shared.ctx.log(
                "scheduler.preemption",
                obj=f"{'Pod' if task.group is None else 'PodGroup'}/{task.key}",
                uid=task.uid,
                data={"node": task.node_name, "victims": [pod.key for pod in task.victims]},
            )
            self._shared.metrics.victims.observe(len(task.victims))
            if self._asynchronous and not task.inline:
                self._shared.core.evictions.append(task)
                ctx.spawn(self._run, task, name="preemption")
                continue
            problem = await self._evict_all(ctx, task, task.victims)
            await self._clear(client, task)
            if problem:
                return problem
        return ""

    async def _run(self, ctx: Context, task: PreemptionTask) -> None:
        """One asynchronous preemption.

        Gate 142294 (proposed; issues 141694, 140082). Upstream the preemptor is made ready only after
        an error; else the delete event of the last victim is to wake it. There is none when that
        victim was gone already, or was stopped in memory and its event came too early. With the
        proposal the preemptor is made ready also when the last victim was stopped in memory, or is
        gone or terminating as far as has been heard; and when it waits before the gate that has just
        been opened. (Whenever the evictions end, as first proposed, would preempt over and over, in
        no time, while the watch does not tell of the victim.)
        """
        ctx.reads("plugins")
        shared = self._shared
        client = Client(ctx, shared.server)
        plugin = shared.core.preemption_plugin(task)
        assert plugin is not None
        await ctx.point("scheduler.preemption.start")
        ctx.reads()
        await self._clear(client, task)
        problem = await self._evict_all(ctx, task, task.victims[:-1])
        if not problem:
            await ctx.point("scheduler.preemption.evict")
            ctx.writes("plugins")
            plugin.evict_last(task)
            problem = await self._evict(client, task, task.victims[-1])
        await ctx.point("scheduler.preemption.finish")
        ctx.reads("queue", "cache")
        ctx.writes("plugins")
        plugin.finish(task)
        shared.core.evictions.remove(task)
        if problem:
            shared.error(f"preempting for {task.key} on {task.node_name}: {problem}")
        if problem or (self._activates and (self.may_be_free(task) or self._is_gated(task))):
            await ctx.region("scheduler.queue.activate")
            steps = shared.core.queue.activate(task.waiting, shared.now())
            await shared.run(ctx, steps, "scheduler.queue.activate")

    def _is_gated(self, task: PreemptionTask) -> bool:
        """Return whether the preemptor is gated: events that do not concern the gate pass it by."""
        waiting = self._shared.core.queue.unschedulable
        held = ((pod, waiting.get(pod.key)) for pod in task.waiting)
        return any(info is not None and info.uid == pod.uid and info.gated for pod, info in held)

    def may_be_free(self, task: PreemptionTask) -> bool:
        """Return whether an event that makes the preemptor schedulable may be missing."""
        last = task.victims[-1]
        core = self._shared.core
        known = core.listers.pods.get(last.namespace, last.name)
        return (
            self._stopped.pop(last.uid, "") is None
            or known is None
            or known.uid != last.uid
            # Its deletion frees nothing that its binding cycle has not freed, unless it is bound, unheard of.
            or not (known.spec.node_name or core.cache.is_assumed_pod(known))
            or known.metadata.deletion_timestamp is not None
        )

    async def _clear(self, client: Client, task: PreemptionTask) -> None:
        self._shared.ctx.reads()
        for pod in task.nominated:
            await self._shared.publish(client, tasks.clear_nomination(pod))

    async def _evict_all(self, ctx: Context, task: PreemptionTask, victims: Sequence[Pod]) -> str:
        """Evict several victims at the same time; an error text, "" when all went well."""
        if len(victims) < 2:
            client = Client(ctx, self._shared.server)
            return await self._evict(client, task, victims[0]) if victims else ""
        running = [ctx.spawn(self._evict_one, task, pod, name="evict") for pod in victims]
        problems = [await ctx.join(each) for each in running]
        return next((problem for problem in problems if problem), "")

    async def _evict_one(self, ctx: Context, task: PreemptionTask, victim: Pod) -> str:
        return await self._evict(Client(ctx, self._shared.server), task, victim)

    async def _evict(self, client: Client, task: PreemptionTask, victim: Pod) -> str:
        """Evict one victim; an error text, "" when it is on its way out or gone already."""
        shared = self._shared
        shared.ctx.writes("bindings")
        running = shared.bindings.get(victim.uid)
        if running is not None:
            waiting = running.waiting
            if waiting is not None:
                stopped = waiting.preempt(task.plugin, WAITING_MESSAGE)
            else:
                stopped = running.cancel(CANCEL_CAUSE.format(task.plugin))
            if stopped:
                self._stopped[victim.uid] = None
                shared.record(tasks.preempted_event(victim, task, in_memory=True))
                return ""
        scheduler = task.preemptor.spec.scheduler_name
        patch = tasks.disruption_patch(victim, scheduler, shared.now(), task.kind)
        try:
            if patch is not None:
                await shared.send_patch(client, patch)
                shared.ctx.reads()
            uid = victim.uid if shared.guards else ""
            await client.delete(PODS, victim.namespace, victim.name, uid=uid)
        except ApiError as error:
            another = is_conflict(error) or is_invalid(error)  # has the name by now
            gone = is_not_found(error) or (shared.guards and another)
            return "" if gone else str(error)
        except LinkBroken as error:
            return str(error)
        shared.ctx.reads()
        shared.record(tasks.preempted_event(victim, task))
        return ""
