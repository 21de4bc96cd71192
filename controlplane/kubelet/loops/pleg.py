"""The pod lifecycle event generator: a relist each second that would find something, or that a worker waits for.

Point: `kubelet.pleg` (before a relist). Each pod whose containers changed is one event for the sync loop,
however many of its containers did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.kubelet.pod.pleg import RELIST_PERIOD_S, PodCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.kubelet.loops.shared import Shared


class Pleg:
    """The pod cache of one kubelet, and the task that keeps it up to date."""

    def __init__(self, shared: Shared, newer: Callable[[str], None]) -> None:
        self._shared = shared
        self._newer = newer
        self._due: int | None = None
        self._last = shared.started
        """The virtual time of the last relist."""
        self._sooner = shared.ctx.condition()
        self.cache = PodCache(shared.host.sandboxes, shared.now())
        for uid in shared.host.sandboxes:
            self.cache.look_at(uid)
        self.cache.relist(shared.now())
        shared.host.look_at = self.look_at

    def look_at(self, uid: str) -> None:
        """Something may have happened to a pod's containers, or its worker waits for a newer entry."""
        self.cache.look_at(uid)
        due = self.cache.due_for(uid, self._shared.now())
        if due is not None and (self._due is None or due < self._due):
            self._due = due
            self._sooner.notify_all()

    async def run(self, ctx: Context) -> None:
        """Relist for ever."""
        shared, cache = self._shared, self.cache
        self._due = cache.due(shared.now())
        while True:
            if self._due is None:
                await self._sooner.wait(idle=True, point="kubelet.pleg")
                continue
            due, at = self._due, self._tick_after(self._due)
            if at > ctx.now:
                idle = cache.only_recurs()
                await self._sooner.wait(at - ctx.now, idle=idle, point="kubelet.pleg")
                if ctx.now < at or self._due != due:
                    continue
            self._last = ctx.now
            changed, waited = cache.relist(shared.now())
            self._due = cache.due(shared.now())
            for uid in waited:
                self._newer(uid)
            if changed:
                shared.relisted.extend(changed)
                shared.news.notify_all()

    def _tick_after(self, due: int) -> int:
        """The first relist, in virtual time, that is not before this time: after the last one, and not past."""
        shared = self._shared
        period = RELIST_PERIOD_S * 1_000_000_000
        since = max(due - shared.epoch, shared.ctx.now, self._last + 1) - shared.started
        return shared.started + -(-since // period) * period
