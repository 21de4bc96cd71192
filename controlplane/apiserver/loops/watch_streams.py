"""Streams of watches: queued events leave, events that wait for a conversion webhook are released, time limits end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from actors import Mailbox
from actors.log import WARNING
from controlplane.api.times import SECOND
from controlplane.apiserver.schema import status
from controlplane.client.loops.informer import WatchBatch

if TYPE_CHECKING:
    from actors import Context
    from controlplane.apiserver.requests.server import ApiServer
    from controlplane.apiserver.storage.transactions import Operation, Outcome
    from controlplane.apiserver.storage.watch_cache import Watcher

    Perform = Callable[[Context, Operation], Awaitable[Outcome]]

LONGEST_WAIT_NS = 30 * SECOND
"""Between attempts to convert the events of a watch. Upstream: client-go tools/cache, reflector.go."""


class WatchStreams:
    """The streams of one server's watches. `perform` does one operation of a conversion."""

    def __init__(self, ctx: Context, core: ApiServer, perform: Perform) -> None:
        self._ctx = ctx
        self._core = core
        self._perform = perform
        self.filled: list[Watcher] = []
        """Watchers with queued events, or that ended."""

    async def end_later(self, ctx: Context, watcher: Watcher, seconds: int) -> None:
        """End a watch at the time limit that its client asked for."""
        await ctx.sleep(seconds * SECOND, idle=True, point="apiserver.watch")
        if not watcher.closed:
            watcher.stop()
            if watcher.on_stop is None:
                self.filled.append(watcher)
            self.flush()

    def follow(self, watcher: Watcher) -> None:
        """Send what comes to a watcher from now on."""
        watcher.on_ready = lambda: self.filled.append(watcher)
        if watcher.holds:
            watcher.on_held = lambda: self._begin_release(watcher)
            if watcher.held:
                self._begin_release(watcher)
        if watcher.buffer:
            self.filled.append(watcher)
            self.flush()

    def _begin_release(self, watcher: Watcher) -> None:
        self._ctx.spawn(self._release, watcher, name="conversion")

    async def _release(self, ctx: Context, watcher: Watcher) -> None:
        """Have the held events of a watch converted and sent, in their order.

        While the webhook fails, they are tried again and the client waits, as behind upstream's watch cache.
        """
        wait = SECOND
        while watcher.held and not watcher.closed:
            steps = self._core.conversions.release(watcher)
            outcome: Outcome = None
            try:
                while True:
                    outcome = await self._perform(ctx, steps.send(outcome))
            except StopIteration:
                wait = SECOND
            except status.ApiError as error:
                data = {"message": error.message}
                self._ctx.log("apiserver.unconverted", level=WARNING, data=data)
                self.flush()
                # A webhook that fails for long must not keep a run from coming to rest.
                idle = wait == LONGEST_WAIT_NS
                await ctx.sleep(wait, idle=idle, point="apiserver.conversion")
                wait = min(2 * wait, LONGEST_WAIT_NS)
        self.flush()

    def flush(self) -> None:
        """Send the queued events of the watchers that have some, and the end of those that ended."""
        filled, self.filled = self.filled, []
        for watcher in filled:
            if not isinstance(watcher.user_data, Mailbox):
                watcher.user_data.deliver()
                continue
            stream: Mailbox = watcher.user_data
            if stream.broken or not stream.owner.alive:
                watcher.stop()
                continue
            events = watcher.drain()
            if events:
                self._ctx.send(stream, WatchBatch(tuple(events)))
            if watcher.closed:
                self._ctx.send(stream, WatchBatch((), end=True))
