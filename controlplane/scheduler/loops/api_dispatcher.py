"""Makes queued API calls, one task per call (feature gate SchedulerAsyncAPICalls).

Upstream: `pkg/scheduler/backend/api_dispatcher`. What comes before what is decided in `framework.api_calls`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors import LinkBroken
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.scheduler.framework.api_calls import ApiCall, BindingCall, StatusPatchCall

if TYPE_CHECKING:
    from actors import Context
    from controlplane.client.loops.connection import RestConfig
    from controlplane.scheduler.framework.api_calls import CallQueue
    from controlplane.scheduler.framework.interface import ApiWrite


class Writer(Protocol):
    """The interface through which calls reach the API server."""

    server: RestConfig

    async def send(self, client: Client, write: ApiWrite) -> None:
        """Make a plugin's write. Raises ApiError or LinkBroken."""

    async def patch_status(self, client: Client, call: StatusPatchCall) -> None:
        """Make a call that patches a pod's status. Raises ApiError or LinkBroken."""

    def error(self, message: str) -> None:
        """Log that something went wrong."""


class ApiDispatcher:
    """The queue of calls, and the task that starts one task for each."""

    def __init__(self, ctx: Context, calls: CallQueue, writer: Writer) -> None:
        self._ctx = ctx
        self._calls = calls
        self._writer = writer
        self._work = ctx.condition()

    def add(self, call: ApiCall) -> None:
        """Queue a call and go on."""
        self._ctx.touches("calls")
        self._calls.add(call)
        self._work.notify_all()

    async def made(self, call: ApiCall) -> str:
        """Queue a call and wait until it is over; what went wrong, "" for nothing."""
        over = self._ctx.event()
        call.when_over(over.set)
        self.add(call)
        await over.wait(point="scheduler.api.wait")
        self._ctx.looks_at("calls")
        return call.error

    async def run(self, ctx: Context) -> None:
        """Start calls as they can be made."""
        while True:
            ctx.writes("calls")
            call = self._calls.pop()
            if call is None:
                await self._work.wait(idle=True, point="scheduler.api.queue")
                continue
            ctx.spawn(self._make, call, name="api call")

    async def _make(self, ctx: Context, call: ApiCall) -> None:
        await ctx.point("scheduler.api.execute")
        ctx.writes("calls")
        client = Client(ctx, self._writer.server)
        problem = ""
        try:
            if isinstance(call, BindingCall):
                await self._writer.send(client, call.write)
            elif isinstance(call, StatusPatchCall):
                await self._writer.patch_status(client, call)
        except (ApiError, LinkBroken) as error:
            problem = str(error)
            if isinstance(call, StatusPatchCall):
                self._writer.error(f"updating pod status: {problem}")
        ctx.writes("calls")
        self._calls.finished(call, problem)
        self._work.notify_all()
