"""Noting what an audit log keeps of requests: once they are answered; of a watch when it begins and when it ends."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from actors import Context
    from controlplane.apiserver.storage.watch_cache import Watcher

__all__ = ["Audit"]


class Audit:
    """The notes of one server. Call it only where the log is kept whole (`Context.noting`)."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._watches = 0

    def note(self, place: str, data: dict[str, Any], watcher: Watcher | None = None) -> None:
        """Note a request that was answered; with `watcher`, a watch that begins, and later its end.

        A watch that ends with its server is not recorded as ended.
        """
        if watcher is None:
            self._ctx.note("apiserver.audited", obj=place, data=data)
            return
        self._watches += 1
        data = {**data, "watch": self._watches}
        self._ctx.note("apiserver.audited", obj=place, data=data)
        if not watcher.closed:
            watcher.on_end = partial(self._ended, place, data)

    def _ended(self, place: str, data: dict[str, Any]) -> None:
        self._ctx.note("apiserver.audited", obj=place, data={**data, "ended": True})
