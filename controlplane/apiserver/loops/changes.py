"""Noting which fields a write changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.apiserver.requests.differences import changed_fields
from controlplane.apiserver.schema import status
from controlplane.apiserver.storage.store import CompactedError

if TYPE_CHECKING:
    from actors import Context
    from controlplane.apiserver.requests.server import ApiServer
    from controlplane.apiserver.requests.telling import About

__all__ = ["note_changes"]


def note_changes(
    ctx: Context, core: ApiServer, about: About, place: str, revision: int | None
) -> None:
    """Note what an update or a patch changed, where the store is at hand and the log is kept whole.

    A server that shares its store with others has not heard of its own write yet, and notes nothing.
    """
    if not ctx.noting or revision is None or about.verb not in ("update", "patch"):
        return
    try:
        prefix = core.resource(about.group, about.version, about.resource).storage_prefix
        space = core.store.keyspaces.get(prefix)
        events = space.news_after(revision - 1)[:1] if space is not None else []
    except (status.ApiError, CompactedError):
        return
    for event in events:
        if event.revision == revision and event.old is not None and event.new is not None:
            fields = changed_fields(event.old.tree, event.new.tree)
            uid = event.new.uid or None
            ctx.note("apiserver.changed", obj=place, uid=uid, rv=revision, data={"fields": fields})
