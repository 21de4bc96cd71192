"""The worker loop that every controller shares: take a key, reconcile it, retry with backoff when that fails.

Points: `<controller>.get` (wait for a key), `<controller>.sync` (a key was taken).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors import LinkBroken
from actors.log import DEBUG, WARNING
from controlplane.client.errors import ApiError
from controlplane.client.workqueue import RateLimiter, WorkQueue

if TYPE_CHECKING:
    from actors import Context


class Retry(Exception):
    """Reconciling could not be finished; try again with backoff. The text goes into the log."""


class Sync(Protocol):
    """Reconcile one key, as seen from one worker task."""

    async def __call__(self, ctx: Context, key: str) -> None:
        """Bring the world to what the object wants."""


class Workers:
    """A work queue with the tasks that serve it."""

    def __init__(self, ctx: Context, name: str, sync: Sync) -> None:
        self._ctx = ctx
        self._name = name
        self._sync = sync
        self._queue = WorkQueue()
        self._limiter = RateLimiter()
        self._work = ctx.condition()

    def start(self, count: int) -> None:
        """Start `count` workers and the task that releases delayed keys."""
        for _ in range(count):
            self._ctx.spawn(self._worker, name=f"{self._name}.worker")

    def add(self, key: str) -> None:
        """Ask for a key to be reconciled."""
        self._queue.add(key)
        if len(self._queue):
            self._work.notify()

    def add_after(self, key: str, ready_at: int) -> None:
        """Ask for a key at a virtual time."""
        ctx = self._ctx
        self._queue.add_after(key, ready_at, ctx.now)
        ctx.spawn(self._release_at, ready_at, name=f"{self._name}.delay")

    async def _release_at(self, ctx: Context, at_ns: int) -> None:
        await ctx.sleep_until(at_ns, point=f"{self._name}.delay")
        self._queue.release(ctx.now)
        self._work.notify_all()

    async def _worker(self, ctx: Context) -> None:
        queue = self._queue
        get, sync = f"{self._name}.get", f"{self._name}.sync"
        while True:
            key = queue.get()
            while key is None:
                await self._work.wait(idle=True, point=get)
                key = queue.get()
            await ctx.point(sync)
            try:
                await self._sync(ctx, key)
            except (ApiError, LinkBroken, Retry) as error:
                at = self._limiter.when(key, ctx.now)
                ctx.log(
                    "controller.retry",
                    level=WARNING if self._limiter.failures(key) > 3 else DEBUG,
                    data={"controller": self._name, "key": key, "error": str(error)},
                )
                self.add_after(key, at)
            else:
                self._limiter.forget(key)
            queue.done(key)
            if len(queue):
                self._work.notify()
