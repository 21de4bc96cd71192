"""Everything between an HTTP request and its answer, without the HTTP.

`answer` routes, negotiates the format, asks the server and renders; the rim only moves bytes. The
answer to a watch is a `WatchAnswer` whose watcher the rim drains.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from controlplane.api.request import Request, Response
from controlplane.apiserver import negotiation, nonresource, rendering, status
from controlplane.apiserver.authorization import rbac
from controlplane.apiserver.options import parse_flag
from controlplane.apiserver.routing import HttpRequest, parse_path, to_request
from controlplane.apiserver.server import ApiServer, failure
from controlplane.apiserver.watch_cache import Watcher, WatchEvent

__all__ = ["HttpAnswer", "WatchAnswer", "answer"]

Tree = dict[str, Any]


@define(eq=False)
class HttpAnswer:
    """A finished answer. `tree` is a JSON body; `text` any other body."""

    code: int
    headers: dict[str, str | list[str]] = field(factory=dict)
    tree: Any = None
    text: str | None = None


@define(eq=False)
class WatchAnswer:
    """A stream: drain `watcher` and render each event. `seconds` is the client's time limit."""

    request: Request
    watcher: Watcher
    seconds: int
    bookmarks: bool
    format: negotiation.Format
    started: bool = False

    def render(self, server: ApiServer, event: WatchEvent, now: int) -> Tree:
        """One event as the client wants to see it."""
        if self.format.plain or event.type == "ERROR":
            return event.tree
        info = server.resource(self.request.group, self.request.version, self.request.resource)
        tree = rendering.rendered_event(
            info, event.object, self.format, now, first=not self.started,
            include=self.request.query.get("includeObject", ""),
        )  # fmt: skip
        self.started = True
        return {"type": event.type, "object": tree}


def answer(server: ApiServer, http: HttpRequest, now: int) -> HttpAnswer | WatchAnswer:
    """Answer any HTTP request."""
    try:
        if server.authorize:
            server.check_allowed(http.user, rbac.attributes_of(http))
        target = parse_path(http.path)
        if target is None or not target.resource or not server.table.versions(target.group):
            return _nonresource(server, http)
        if target.version not in server.table.versions(target.group):
            return HttpAnswer(404, {"Content-Type": "text/plain; charset=utf-8"}, None,
                              "404 page not found\n")  # fmt: skip
        if http.method == "HEAD":
            return HttpAnswer(405, {"Content-Type": "application/json"}, None, "")
        request = to_request(server.table, http)
        chosen = negotiation.negotiate(request)
        if request.verb in ("list", "watch"):
            _check_timeout(request)
        if request.verb == "watch":
            return _watch(server, request, chosen, now)
        response = server.handle(request, now)
        return _rendered(server, request, response, chosen, now)
    except status.ApiError as error:
        return _plain(failure(error))


def _nonresource(server: ApiServer, http: HttpRequest) -> HttpAnswer:
    code, headers, tree, text = nonresource.answer(server, http)
    return HttpAnswer(code, headers, tree, text)


def _watch(
    server: ApiServer, request: Request, chosen: negotiation.Format, now: int
) -> HttpAnswer | WatchAnswer:
    opened = server.watch(request, now)
    if isinstance(opened, Response):
        return _plain(opened)
    seconds = int(request.query.get("timeoutSeconds") or 0)
    bookmarks = parse_flag(request.query.get("allowWatchBookmarks", ""))
    return WatchAnswer(request, opened, seconds, bookmarks, chosen)


def _check_timeout(request: Request) -> None:
    text = request.query.get("timeoutSeconds", "")
    if text and not text.removeprefix("-").removeprefix("+").isdecimal():
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')


def _custom(server: ApiServer, request: Request) -> bool:
    info = server.table.get(request.group, request.version, request.resource)
    return info is not None and info.custom is not None


def _headers(response: Response, content_type: str) -> dict[str, str | list[str]]:
    headers: dict[str, str | list[str]] = {"Content-Type": content_type}
    if response.warnings:
        headers["Warning"] = [f'299 - "{_escaped(text)}"' for text in response.warnings]
    headers.update(response.headers)
    return headers


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _plain(response: Response) -> HttpAnswer:
    return HttpAnswer(response.code, _headers(response, "application/json"), response.tree)


def _rendered(
    server: ApiServer, request: Request, response: Response, chosen: negotiation.Format, now: int
) -> HttpAnswer:
    if response.content is not None:
        headers = _headers(response, response.content_type)
        if not response.content:
            del headers["Content-Type"]
            return HttpAnswer(204, headers, None, "")
        return HttpAnswer(response.code, headers, None, response.content.decode())
    tree = response.tree
    if response.items is not None and "items" in tree and not _custom(server, request):
        hidden = ("apiVersion", "kind")
        items = [{k: v for k, v in item.items() if k not in hidden} for item in tree["items"]]
        tree = response.tree = {**tree, "items": items}
    if response.ok and not chosen.plain and tree.get("kind") != "Status":
        info = server.resource(request.group, request.version, request.resource)
        tree = rendering.rendered(info, request, response, chosen, now)
    return HttpAnswer(response.code, _headers(response, chosen.media_type), tree)
