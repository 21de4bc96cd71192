"""Pod groups in the scheduling task: gather the members, try them together, let each go its way.

One group's cycle is one turn of the scheduling task. Informers, timers, binding cycles and preemptions run between
its steps: a member may be deleted, bound or added meanwhile, and what Permit let go is bound while later members
are still being handed over. Points stand in `points`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from actors.log import INFO
from controlplane.client.errors import ApiError
from controlplane.client.resources import POD_GROUPS
from controlplane.scheduler.cycle.attempt import Attempt, Failure, SchedulingError
from controlplane.scheduler.framework.interface import Code
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION
from controlplane.scheduler.loops.shared import declare, note_popped
from controlplane.scheduler.podgroups import members, outcome
from controlplane.scheduler.podgroups.algorithm import Trial
from controlplane.scheduler.podgroups.model import Group, GroupResult, failed
from controlplane.scheduler.state.pod_groups import group_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actors import Context
    from controlplane.client.loops.clientset import Client
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.loops.preemption import Preemptor
    from controlplane.scheduler.loops.rest import Rest
    from controlplane.scheduler.loops.shared import Shared

COLLECT = "scheduler.group.collect"
TRY = "scheduler.group.try"


class GroupScheduler:
    """Runs the cycles of pod groups.

    Args:
        shared: state and services of the scheduler's tasks.
        preemptor: carries out evictions.
        assume: gives a pod its node in memory; sets a failure when that is refused.
        accept: begins the binding cycle of an assumed pod.
        fail: the failure handler.
        rest: told how cycles ended.
    """

    def __init__(
        self,
        shared: Shared,
        preemptor: Preemptor,
        assume: Callable[[Context, Attempt], Awaitable[None]],
        accept: Callable[[Context, Attempt, QueuedPodInfo], Awaitable[None]],
        fail: Callable[[Context, Client, Attempt], Awaitable[None]],
        rest: Rest,
    ) -> None:
        self._shared = shared
        self._preemptor = preemptor
        self._assume = assume
        self._accept = accept
        self._fail = fail
        self._rest = rest

    async def schedule(self, ctx: Context, client: Client, info: QueuedPodInfo) -> None:
        """One cycle: the popped pod with all siblings that can be had."""
        shared, core = self._shared, self._shared.core
        await ctx.region(COLLECT)
        gathering = members.gather(core.handle, core.queue, info, shared.now())
        found = await shared.run(ctx, gathering, COLLECT)
        if found is None:
            await self._without_state(ctx, client, info)
            return
        if ctx.noting:
            for each in found:
                if each is not info:
                    note_popped(ctx, each)
        framework, problem = members.framework_of(core.frameworks, found)
        if framework is None:
            await self._refuse(ctx, client, found, problem)
            return
        wanted = await self._unskipped(ctx, found)
        key = group_of(info.pod)
        if not wanted or key is None:
            return
        group = Group(key, framework, wanted, shared.now())
        if shared.observer is not None:
            for each in wanted:
                shared.observer.attempt_started(each.uid)
        result = await self._try(ctx, client, group)
        await self._submit(ctx, client, group, result)

    async def _without_state(self, ctx: Context, client: Client, info: QueuedPodInfo) -> None:
        """The group has no pod any longer, as far as the cache knows: the pod goes back in silence.

        Upstream loses the error on the way to its handler, which then reports nothing.
        """
        attempt = self._begun(info)
        if attempt is not None:
            attempt.failure = Failure(Code.ERROR, SchedulingError(""), None)
            await self._fail(ctx, client, attempt)

    async def _refuse(
        self, ctx: Context, client: Client, infos: list[QueuedPodInfo], problem: str
    ) -> None:
        """Members of different schedulers: none is tried."""
        for info in infos:
            attempt = self._begun(info)
            if attempt is None:
                return
            attempt.failure = Failure(Code.ERROR, SchedulingError(problem), CLEAR_NOMINATION)
            await self._fail(ctx, client, attempt)

    def _begun(self, info: QueuedPodInfo) -> Attempt | None:
        """An attempt of a pod outside of any cycle; without a profile its flight ends."""
        core, now = self._shared.core, self._shared.now()
        framework = core.frameworks.get(info.pod.spec.scheduler_name)
        if framework is None:
            core.queue.done(info.uid)
            return None
        group = Group(("", ""), framework, [info], now)
        return group.attempt(info, 0)

    async def _unskipped(self, ctx: Context, infos: list[QueuedPodInfo]) -> list[QueuedPodInfo]:
        """Members that are neither terminating nor assumed; the flights of others end."""
        wanted: list[QueuedPodInfo] = []
        for info in infos:
            await ctx.region("scheduler.cycle.start")
            if self._shared.begin(ctx, info) is not None:
                wanted.append(info)
        return wanted

    async def _try(self, ctx: Context, client: Client, group: Group) -> GroupResult:
        shared, core = self._shared, self._shared.core
        await ctx.region("scheduler.cycle.snapshot")
        declare(ctx, "scheduler.cycle.snapshot")
        problem = core.renew_snapshot()
        if problem:
            return GroupResult(status=failed(problem))
        trial = Trial(core.search, core.queue, group)
        await ctx.region(TRY)
        result = await shared.run(ctx, trial.run(), TRY, lambda: self._preemptor.take(ctx, client))
        ctx.writes("cycle")
        if shared.observer is not None:
            for info in group.infos:
                shared.observer.algorithm_ended(info.uid)
        shared.metrics.groups.tried(shared.now() - group.started)
        return result

    async def _submit(
        self, ctx: Context, client: Client, group: Group, result: GroupResult
    ) -> None:
        """Hand over every member, then write the group's condition."""
        shared = self._shared
        bound = 0
        for attempt in outcome.attempts(group, result):
            info = attempt.info
            if attempt.failure is None:
                attempt.state.group = None
                await self._assume(ctx, attempt)
            if attempt.failure is not None:
                await self._fail(ctx, client, attempt)
                continue
            bound += 1
            await self._accept(ctx, attempt, info)
        self._count(group, bound)
        told = outcome.condition(result)
        data = {
            "members": len(group.infos),
            "bound": bound,
            "status": told["status"],
            "reason": told["reason"],
            "message": told["message"],
        }
        namespace, name = group.key
        ctx.log("scheduler.group", level=INFO, obj=f"PodGroup/{namespace}/{name}", data=data)
        shared.metrics.groups.ended(result, group.framework.profile, shared.now() - group.started)
        await self._tell(ctx, client, group, told)

    def _count(self, group: Group, bound: int) -> None:
        """Note how often in a row the group's cycle came to nothing."""
        if bound:
            self._rest.succeeded(group.key)
        else:
            self._rest.failed(group.key)

    async def _tell(self, ctx: Context, client: Client, group: Group, told: dict[str, str]) -> None:
        """Write the condition, within the scheduling task as upstream; errors are only logged."""
        shared = self._shared
        namespace, name = group.key
        await ctx.region("scheduler.group.condition")
        ctx.reads()
        known = shared.core.listers.pod_groups.get(namespace, name)
        if known is None:
            missing = f'podgroup.scheduling.k8s.io "{name}" not found'
            shared.error(f"Failed to get PodGroup for status update: {missing}")
            return
        patch = outcome.status_patch(known, told, shared.now())
        if patch is None:
            return
        try:
            await client.patch(POD_GROUPS, namespace, name, patch, subresource="status")
            ctx.reads()
        except (ApiError, LinkBroken) as error:
            shared.error(f"Failed to update PodGroup status: {error}")
