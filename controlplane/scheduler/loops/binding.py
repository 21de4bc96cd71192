"""The binding cycle: one task per pod, taken from a pool of tasks that wait for the next one.

Its points stand in `points`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from controlplane.api.times import SECOND
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.scheduler.cycle import binding, explain
from controlplane.scheduler.cycle.attempt import Attempt, Failure, SchedulingError
from controlplane.scheduler.framework.api_calls import BindingCall
from controlplane.scheduler.framework.interface import (
    Code,
    Status,
    StatusError,
    WaitingPreBindPlugin,
)
from controlplane.scheduler.framework.waiting import WaitingPod
from controlplane.scheduler.loops.running import Binding
from controlplane.scheduler.metrics import SCHEDULED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from actors import Condition, Context
    from controlplane.scheduler.framework.interface import ApiWrite
    from controlplane.scheduler.loops.shared import Shared

START = "scheduler.bind.start"
CLAIMS = "scheduler.prebind.claims"


class _Slot:
    """A task of the pool and what it is to do next."""

    __slots__ = ("attempt", "wake")

    def __init__(self, attempt: Attempt, wake: Condition) -> None:
        self.attempt: Attempt | None = attempt
        self.wake = wake


class Binder:
    """Runs binding cycles."""

    def __init__(self, shared: Shared, failed: Callable[..., Awaitable[None]]) -> None:
        self._shared = shared
        self._finishes = shared.core.cache.expires or shared.gates.fixed("141645")
        self._failed = failed
        self._idle: list[_Slot] = []

    def admit(self, attempt: Attempt) -> None:
        """Permit is over. If plugins hold the pod back, from now on they (and others) can decide about it."""
        if not attempt.waits:
            return
        shared = self._shared
        decided = shared.ctx.condition()
        pod = attempt.pod
        waiting = WaitingPod(pod, attempt.waits, shared.now(), decided.notify_all)
        shared.bindings[pod.uid] = Binding(waiting)
        shared.core.handle.waiting_pods[pod.uid] = waiting
        attempt.state.write("scheduler.decided", decided)
        shared.core.set_waiting(pod.uid, lambda message: waiting.reject("", message))
        if binding.went_unnoticed(attempt):
            waiting.reject("", "removed")

    def start(self, attempt: Attempt) -> None:
        """Begin a binding cycle: a waiting task of the pool takes it, or a new one."""
        self._shared.ctx.writes("binders")
        if self._idle:
            slot = self._idle.pop()
            slot.attempt = attempt
            slot.wake.notify_all()
            return
        ctx = self._shared.ctx
        ctx.spawn(self._work, _Slot(attempt, ctx.condition()), name="bind")

    async def _work(self, ctx: Context, slot: _Slot) -> None:
        client = Client(ctx, self._shared.server)
        while True:
            ctx.writes("binders")
            attempt = slot.attempt
            if attempt is None:
                await slot.wake.wait(idle=True, point=START)
                continue
            slot.attempt = None
            await self._bind(ctx, client, attempt)
            ctx.writes("binders")
            self._idle.append(slot)

    async def _bind(self, ctx: Context, client: Client, attempt: Attempt) -> None:
        shared = self._shared
        core = shared.core
        ctx.reads("plugins")
        nomination = binding.pre_bind_pre_flight(attempt)
        if nomination is not None:
            await shared.publish(client, nomination)
        if attempt.failure is None:
            status = await self._permitted(attempt)
            if status is None:
                await ctx.region("scheduler.bind.done")
            ctx.writes("queue")
            binding.permit_wait_over(core.queue, attempt, status)
        if attempt.failure is None and attempt.has_pre_bind_work:
            await self._pre_bind(ctx, client, attempt)
        if attempt.failure is None:
            ctx.reads("plugins")
            write = binding.bind(attempt)
            if write is not None and await self._write(client, attempt, write):
                ctx.reads("plugins")
                if self._finishes:
                    ctx.writes("cache", "queue")
                    binding.finished(core.cache, core.queue, attempt, shared.now())
                    shared.assumed.notify_all()
                shared.record(binding.bound(attempt))
                shared.metrics.ended(attempt, SCHEDULED, shared.now())
                if shared.observer is not None:
                    shared.observer.attempt_ended(attempt.popped_uid, SCHEDULED)
                await shared.activate(ctx, attempt)
                if attempt.explanation is not None:
                    explain.bound(attempt.explanation, attempt)
                    await shared.annotate(client, attempt)
                return
        await ctx.region("scheduler.bind.undo")
        steps = binding.undo(core.cache, core.queue, attempt, shared.now())
        assumed = attempt.pod
        later = await shared.run(ctx, steps, "scheduler.bind.undo")
        await self._failed(ctx, client, attempt)
        if later:
            await ctx.region("scheduler.bind.freed")
            freed = binding.after_failure(core.queue, assumed, shared.now())
            await shared.run(ctx, freed, "scheduler.bind.freed")

    # ------------------------------------------------------------------ Permit

    async def _permitted(self, attempt: Attempt) -> Status | None:
        """Wait until the pod is let go or refused; None: bind it."""
        if not attempt.waits:
            return None
        shared = self._shared
        shared.ctx.writes("bindings")
        uid = attempt.pod.uid
        waiting = shared.bindings[uid].waiting
        assert waiting is not None
        decided: Condition = attempt.state.read("scheduler.decided")
        began = shared.now()
        while not waiting.is_decided:
            left = waiting.next_deadline() - shared.now()
            if left > 0:
                await decided.wait(left, point="scheduler.permit.wait")
                shared.ctx.writes("bindings")
            if not waiting.is_decided:
                waiting.expire(shared.now())
        shared.core.set_waiting(uid, None)
        shared.core.handle.waiting_pods.pop(uid, None)
        shared.bindings.pop(uid, None)
        status = waiting.status
        code = "Success" if status is None else status.code_name
        shared.metrics.permitted(code, shared.now() - began)
        if status is not None and not status.is_rejected:
            message = f"waiting on permit for pod: {status.message}"
            return Status(Code.ERROR, (message,), status.plugin)
        return status

    # ------------------------------------------------------------------ PreBind

    async def _pre_bind(self, ctx: Context, client: Client, attempt: Attempt) -> None:
        """Make the writes of the PreBind plugins, wait for what they wait for; may set `failure`."""
        shared = self._shared
        uid = attempt.pod.uid
        ctx.writes("bindings", "plugins")
        stopped = ctx.condition()
        running = shared.bindings[uid] = Binding(wake=stopped.notify_all)
        try:
            for plugin, write in binding.pre_bind(attempt):
                try:
                    await shared.send(client, write)
                    ctx.writes("bindings", "plugins")
                except (ApiError, LinkBroken) as error:
                    ctx.writes("bindings")
                    _pre_bind_failed(attempt, plugin, str(error))
                    return
            if attempt.failure is None:
                await self._volumes_bound(ctx, attempt, running, stopped)
            if attempt.failure is None and binding.calls_in_pre_bind(attempt):
                await ctx.region(CLAIMS)
                await shared.run(ctx, binding.pre_bind_calls(attempt), CLAIMS)
                ctx.writes("bindings")
            if attempt.failure is None and not running.mark_prebound():
                attempt.failure = Failure(Code.ERROR, SchedulingError(running.cause))
        finally:
            shared.bindings.pop(uid, None)

    async def _volumes_bound(
        self, ctx: Context, attempt: Attempt, running: Binding, stopped: Condition
    ) -> None:
        """Look once a second whether what the plugins began is done."""
        state, pod, node = attempt.state, attempt.pod, attempt.node_name
        for plugin in attempt.framework.plugins.pre_bind:
            if not isinstance(plugin, WaitingPreBindPlugin) or plugin.name in state.skip_pre_bind:
                continue
            end = ctx.now + plugin.bind_timeout
            while not running.cause:
                if ctx.now + SECOND > end:
                    _pre_bind_failed(
                        attempt, plugin.name, "binding volumes: context deadline exceeded"
                    )
                    return
                woken = await stopped.wait(SECOND, point="scheduler.prebind.wait")
                ctx.writes("bindings", "plugins")
                if woken:
                    break
                try:
                    if plugin.is_bound(state, pod, node):
                        break
                except StatusError as failed:
                    message = f"binding volumes: {failed.status.message}"
                    _pre_bind_failed(attempt, plugin.name, message)
                    return

    async def _write(self, client: Client, attempt: Attempt, write: ApiWrite) -> bool:
        """Bind the pod; False (and a failure of the attempt) when the server refuses."""
        problem = ""
        dispatcher = self._shared.dispatcher
        if dispatcher is not None and write.subresource == "binding":
            problem = await dispatcher.made(BindingCall(attempt.pod, write))
        else:
            try:
                await self._shared.send(client, write)
            except (ApiError, LinkBroken) as error:
                problem = str(error)
        self._shared.ctx.reads("plugins")
        if not problem:
            return True
        plugins = attempt.framework.plugins.bind
        name = plugins[0].name if len(plugins) == 1 else "DefaultBinder"
        binding.bind_error(attempt, name, problem)
        return False


def _pre_bind_failed(attempt: Attempt, plugin: str, message: str) -> None:
    text = f'running PreBind plugin "{plugin}": {message}'
    attempt.failure = Failure(Code.ERROR, SchedulingError(text))
