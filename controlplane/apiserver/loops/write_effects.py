"""Noting what a write did: which fields it changed, and whether the object is gone with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.requests.changed_fields import changed_fields
from controlplane.apiserver.schema import status
from controlplane.apiserver.storage.store import CompactedError
from controlplane.apiserver.storage.transactions import Done, Put, Transaction

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.object import Object
    from controlplane.apiserver.requests.request_events import About
    from controlplane.apiserver.requests.server import ApiServer
    from controlplane.apiserver.storage.transactions import Operation, Outcome

__all__ = ["WriteEffects"]

KEPT = 256
"""The number of writes that are remembered until their requests are answered."""


class WriteEffects:
    """The changes made by the writes of one server. Nothing is kept or noted unless the log is kept whole."""

    def __init__(self, ctx: Context, core: ApiServer) -> None:
        self._ctx = ctx
        self._core = core
        self._made: dict[int, tuple[Object, Object | None]] = {}
        """The objects before and after a write, by revision, of stores that are a message away."""

    def made(self, operation: Operation, outcome: Outcome) -> None:
        """A transaction of this server was performed elsewhere: the store tells of it later than its answer."""
        if not self._ctx.noting or type(operation) is not Transaction or type(outcome) is not Done:
            return
        for change, written in zip(operation.changes, outcome.objects, strict=True):
            if written is None:
                continue
            if type(change) is not Put:
                self._made[outcome.revision] = written, None
            elif change.before is not None:
                self._made[outcome.revision] = change.before, written
        while len(self._made) > KEPT:
            del self._made[next(iter(self._made))]

    def note(self, about: About, place: str, revision: int | None) -> None:
        """Note what a request did that wrote this revision last."""
        if not self._ctx.noting or revision is None or about.verb == "create":
            return
        found = self._made.pop(revision, None) or self._in_store(about, revision)
        if found is None:
            return
        old, new = found
        uid = old.uid or None
        if new is None:
            self._ctx.note("apiserver.removed", obj=place, uid=uid, rv=revision)
        elif about.verb in ("update", "patch"):
            data = {"fields": changed_fields(old.tree, new.tree)}
            self._ctx.note("apiserver.changed", obj=place, uid=uid, rv=revision, data=data)

    def _in_store(self, about: About, revision: int) -> tuple[Object, Object | None] | None:
        """Return the change that the local store has under a revision."""
        core = self._core
        try:
            prefix = core.resource(about.group, about.version, about.resource).storage_prefix
            space = core.store.keyspaces.get(prefix)
            events = space.news_after(revision - 1)[:1] if space is not None else []
        except (status.ApiError, CompactedError):
            return None
        for event in events:
            if event.revision == revision and event.old is not None:
                return event.old, event.new
        return None
