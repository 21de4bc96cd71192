"""The worker loop that every controller shares: take a key, reconcile it, retry with backoff when that fails.

Points: `<controller>.get` (wait for a key), `<controller>.sync` (a key was taken),
`<controller>.delay` (wait for the next delayed key).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from actors import LinkBroken
from actors.log import DEBUG, WARNING
from controlplane.client.errors import ApiError, ConnectionLost
from controlplane.client.rate_limits import Limiter
from controlplane.client.workqueue import RateLimiter, WorkQueue
from controlplane.controllers.common.effects import Retry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors import Context

LOUD_FAILURES = 3
"""From this many failures of one key on, each is worth a warning."""


LASTING_FAILURES = 18
"""From this number of failures on, a key succeeds only after a change elsewhere: the default backoff is at its
longest.
doubled so often, is at its longest), so its next try does not keep a run from settling.
"""


class Sync(Protocol):
    """Reconcile one key, as seen from one worker task."""

    async def __call__(self, ctx: Context, key: str) -> None:
        """Bring the world to what the object wants."""


class Workers:
    """A work queue with the tasks that serve it.

    After `max_retries` failures in a row a key is dropped until it is asked for again; None never
    drops.
    """

    def __init__(
        self, ctx: Context, name: str, sync: Sync, *, max_retries: int | None = None
    ) -> None:
        self._ctx = ctx
        self._name = name
        self._sync = sync
        self.max_retries = max_retries
        self._queue = WorkQueue()
        self.limiter: Limiter = RateLimiter()
        self._work = ctx.condition()
        self._delays = ctx.condition()

    def start(self, count: int) -> None:
        """Start `count` workers and the task that releases delayed keys."""
        for _ in range(count):
            self._ctx.spawn(self._worker, name=f"{self._name}.worker")
        self._ctx.spawn(self._release, name=f"{self._name}.delay")

    def add(self, key: str) -> None:
        """Ask for a key to be reconciled."""
        if self._queue.add(key):
            self._work.notify()

    def add_after(self, key: str, ready_at: int, *, idle: bool = False) -> None:
        """Ask for a key at a virtual time. An idle delay does not keep the run from settling."""
        queue = self._queue
        before = queue.next_due(), queue.only_idle_delays
        if queue.add_after(key, ready_at, self._ctx.now, idle=idle):
            self._work.notify()
        elif before != (queue.next_due(), queue.only_idle_delays):
            self._delays.notify()

    @property
    def processing(self) -> Mapping[str, int]:
        """The keys that are being reconciled, each with a number of its own every time."""
        return self._queue.processing

    def relax(self, key: str) -> None:
        """A delay of a key need not be awaited: nothing depends on it any more."""
        if self._queue.relax(key):
            self._delays.notify()

    def add_rate_limited(self, key: str, *, idle: bool = False) -> None:
        """Ask for a key after a backoff that grows until the key is reconciled without error."""
        lasts = self.limiter.failures(key) >= LASTING_FAILURES
        self.add_after(key, self.limiter.when(key, self._ctx.now), idle=idle or lasts)

    def forget(self, key: str) -> None:
        """The backoff of a key begins anew."""
        self.limiter.forget(key)

    def failures(self, key: str) -> int:
        """Return the number of failures in a row of a key."""
        return self.limiter.failures(key)

    async def _release(self, ctx: Context) -> None:
        """Sleep until the next delayed key is due, as often as that time changes."""
        queue = self._queue
        point = f"{self._name}.delay"
        while True:
            for _ in range(queue.release(ctx.now)):
                self._work.notify()
            due = queue.next_due()
            wait = None if due is None else due - ctx.now
            await self._delays.wait(wait, idle=queue.only_idle_delays, point=point)

    async def _worker(self, ctx: Context) -> None:
        queue = self._queue
        get, sync = f"{self._name}.get", f"{self._name}.sync"
        while True:
            key = queue.get()
            while key is None:
                await self._work.wait(idle=True, point=get)
                key = queue.get()
            if ctx.noting:
                ctx.note("controller.popped", data={"controller": self._name, "key": key})
            await ctx.point(sync)
            try:
                await self._sync(ctx, key)
            except (ApiError, ConnectionLost, LinkBroken, Retry) as error:
                self._failed(ctx, key, error)
            else:
                self.limiter.forget(key)
            if queue.done(key):
                self._work.notify()

    def _failed(self, ctx: Context, key: str, error: Exception) -> None:
        limiter = self.limiter
        failures = limiter.failures(key)
        dropped = self.max_retries is not None and failures >= self.max_retries
        data = {"controller": self._name, "key": key, "error": str(error)}
        level = WARNING if dropped or failures >= LOUD_FAILURES else DEBUG
        ctx.log("controller.dropped" if dropped else "controller.retry", level=level, data=data)
        if dropped:
            limiter.forget(key)
        else:
            self.add_rate_limited(key)
