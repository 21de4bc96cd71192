"""Records of answered requests: the event of a write, the changes that it made, and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.log import INFO
from controlplane.apiserver.loops.audit import Audit
from controlplane.apiserver.loops.write_effects import WriteEffects
from controlplane.apiserver.requests import request_events
from controlplane.apiserver.requests.request_events import About

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.request import Request, Response
    from controlplane.apiserver.requests.server import ApiServer
    from controlplane.apiserver.storage.watch_cache import Watcher


class Records:
    """The records of one server. Requests from outside use `changes` and `audit` themselves."""

    def __init__(self, ctx: Context, core: ApiServer) -> None:
        self._ctx = ctx
        self._core = core
        self.changes = WriteEffects(ctx, core)
        self.audit = Audit(ctx)

    def note_write(self, request: Request, response: Response, revision: int | None) -> None:
        """Log a write of a component, with what it changed."""
        tree = response.tree if response.object is None else response.object.tree
        about = About.of(request)
        place, uid, data = request_events.written(
            about, self._core.resource, tree, response.code, response.reason
        )
        if response.audit:
            data["audit"] = dict(response.audit)
        self._ctx.log("apiserver.write", level=INFO, obj=place, uid=uid, rv=revision, data=data)
        self.changes.note(about, place, revision)

    def note_audit(
        self,
        request: Request,
        arrived: int,
        code: int,
        notes: dict[str, str],
        watcher: Watcher | None = None,
    ) -> None:
        """Note what an audit log keeps of a request."""
        about = About.of(request)
        uri = request.path or request_events.uri_of(about, request.query)
        data = request_events.audited(about, request.user, uri, code, arrived, notes)
        self.audit.note(request_events.place_of(about, self._core.resource, None), data, watcher)
