"""Everything between an HTTP request and its answer, without the HTTP.

`answer` routes, negotiates the format, asks the server and renders; the rim only moves bytes. The
answer to a watch is a `WatchAnswer` whose watcher the rim drains.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from html import escape
from typing import Any
from urllib.parse import urlencode

from attrs import define, evolve, field, frozen

from controlplane.api.container_inside import Inside
from controlplane.api.durations import parse_duration
from controlplane.api.flags import flag
from controlplane.api.host_access import Reached
from controlplane.api.json_text import is_whole
from controlplane.api.object import Object
from controlplane.api.request import FollowedLog, Request, Response
from controlplane.api.tree import Tree
from controlplane.apiserver.front import discovery as nonresource
from controlplane.apiserver.front import negotiation, rendering
from controlplane.apiserver.front.plain_text import plain_answer
from controlplane.apiserver.front.served import Served
from controlplane.apiserver.requests import subresources
from controlplane.apiserver.requests.authorization import rbac
from controlplane.apiserver.requests.options import parse_int64
from controlplane.apiserver.requests.pod_logs import shown
from controlplane.apiserver.requests.registries import no_such_resource
from controlplane.apiserver.requests.routing import (
    CONNECT,
    HttpRequest,
    Target,
    check_path,
    to_request,
)
from controlplane.apiserver.requests.server import ApiServer, failure
from controlplane.apiserver.schema import status, work
from controlplane.apiserver.schema.cbor import writing as cbor
from controlplane.apiserver.schema.protobuf import writing
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.storage.transactions import Steps
from controlplane.apiserver.storage.watch_cache import Watcher, WatchEvent

__all__ = [
    "HttpAnswer",
    "Listing",
    "LogAnswer",
    "WatchAnswer",
    "answer",
    "answering",
    "failed",
    "served_by",
    "serves_cbor",
    "untyped",
]

_TYPE = ("apiVersion", "kind")
WARNING_RUNES = 4096
WARNING_ITEM_RUNES = 256


@frozen(eq=False)
class Listing:
    """A list answer as references to what is stored: `head` without the items, and the items.

    `typed`: items say their kind themselves, as those of custom resources do.
    """

    head: Tree
    items: list[Object]
    typed: bool = False

    @property
    def tree(self) -> Tree:
        """The whole as one tree."""
        trees: list[Tree] = [obj.tree for obj in self.items]
        if not self.typed:
            trees = [untyped(tree) for tree in trees]
        return {**self.head, "items": trees}


@define(eq=False)
class Rendering:
    """A list in another form, made part by part while it is sent: under `key` stand its `parts`."""

    head: Tree
    key: str
    _parts: Callable[[], Iterator[list[Tree]]]

    def items(self) -> Iterator[Tree]:
        """Yield the values under the key, one by one."""
        for part in self._parts():
            yield from part

    @property
    def tree(self) -> Tree:
        """The whole as one tree."""
        return {**self.head, self.key: list(self.items())}


def untyped(tree: Tree) -> Tree:
    """An object as it stands in a list of its kind."""
    return {key: value for key, value in tree.items() if key not in _TYPE}


@define(eq=False)
class HttpAnswer:
    """A finished answer. `tree` is a JSON body, `text` any other body; `listing` a list.

    `object` is the stored object that the body shows, if it shows one as it is.

    `whole`: the body is put together before the first byte leaves, as servers before 1.33 did.
    """

    code: int
    headers: dict[str, str | list[str]] = field(factory=dict)
    _tree: Any = field(default=None, alias="tree")
    text: str | None = None
    listing: Listing | None = None
    object: Object | None = None
    whole: bool = False
    whole_numbers: bool = False
    """No number in the body's items or rows has a fraction: they may be encoded by the fast encoder."""
    packed: bytes | None = None
    """The body in protobuf or CBOR, if it leaves so."""
    unpacked: bool = False
    """The list is long and wanted in protobuf or CBOR: `pack` is still to come."""
    rendering: Rendering | None = None
    """A long list in another form."""
    log: LogAnswer | None = None
    """The log to stream after `text` has been sent."""
    entered: Inside | Reached | None = None
    """The target of the upgraded connection: a container, or a target on the serving machine."""

    @property
    def tree(self) -> Any:
        """The body as a tree, None when it is none."""
        if self._tree is None and self.listing is not None:
            self._tree = self.listing.tree
        elif self._tree is None and self.rendering is not None:
            self._tree = self.rendering.tree
        return self._tree

    def pack(self) -> Iterator[None]:
        """Put the body into protobuf or CBOR, or say that it is JSON if that cannot be; with pauses."""
        self.unpacked = False
        listing = self.listing
        if self.headers["Content-Type"] == negotiation.CBOR:
            if listing is not None:
                self.packed = yield from cbor.listing(
                    listing.head, listing.items, typed=listing.typed
                )
            else:
                self.packed = cbor.encoded(self.tree)
            return
        try:
            if listing is not None:
                self.packed = yield from writing.listing(listing.head, listing.items)
            else:
                self.packed = writing.encoded(self.tree)
        except writing.Unwritable:
            self.headers["Content-Type"] = "application/json"


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
        tree = rendering.rendered_event(
            self.watcher.info,
            event.object,
            self.format,
            now,
            first=not self.started,
            include=self.request.query.get("includeObject", ""),
        )
        self.started = True
        return {"type": event.type, "object": tree}


@define(eq=False)
class LogAnswer:
    """A followed log: the chunks that `more` returns, until it returns None."""

    log: FollowedLog
    _sent: int = 0
    _ended: bool = False

    def more(self, server: ApiServer, now: int) -> bytes | None:
        """Return what was written since the last call; None after the end."""
        log, read = self.log, server.options.container_log
        pod = server.lookup.get("", "pods", log.request.namespace, log.request.name)
        if pod is None or pod.uid != log.uid or read is None:
            return None
        sent = self._sent or log.sent
        written = read(pod.tree, log.container, now, False)
        if written.count < sent or self._ended:
            return None
        self._ended = written.ended
        self._sent = written.count
        query = {key: value for key, value in log.request.query.items() if key != "limitBytes"}
        return shown(written, query, sent)


def answer(server: ApiServer, http: HttpRequest, now: int) -> HttpAnswer | WatchAnswer:
    """Answer any HTTP request to a server that has its store to itself."""
    at_hand = server.at_hand
    work.on(work.Budget())
    try:
        return at_hand.run(answering(server, http, now))
    finally:
        work.on(work.FREE)


_BEFORE_ROUTES = ("406: ", "415: ")
"""The beginnings of errors that upstream answers before it knows the resource's handler, which warns."""


_READING = ("POST", "PUT", "DELETE")
"""The methods whose handlers read a body after they chose the form of the answer."""


def answering(server: ApiServer, http: HttpRequest, now: int) -> Steps[HttpAnswer | WatchAnswer]:
    """The handling of an HTTP request: access, negotiation, answer."""
    target = http.target
    info: ResourceInfo | None = None
    try:
        if target is not None and (target.watch or target.proxied) and not target.resource:
            return _unknown_kind(http)
        if http.query:
            _check_timeout(http, target)
        if server.access.enabled:
            server.access.check(http.user, rbac.attributes_of(http))
        if target is None or not target.resource or not target.routed:
            return _nonresource(server, http)
        info = server.table.get(target.group, target.version, target.resource)
        if info is None:
            if not server.table.built_in(target.group):
                return _nonresource(server, http)
            if target.version not in server.table.versions(target.group):
                return failed(
                    failure(no_such_resource()), http.headers.get("accept", ""), cbor=http.cbor
                )
        elif info.custom is not None and not _in_scope(info, target, http.method):
            return _nonresource(server, http)
        if http.method == "HEAD" and target.subresource != "proxy" and not _is_custom(info):
            return _head(info, target, http.headers.get("accept", ""))
        routed = not _is_custom(info)
        tables = info is None or subresources.has_table(info, target.subresource)
        try:
            request = to_request(server.table, http, target)
        except status.ApiError as error:
            if http.method in _READING and error.code in (400, 415, 422):
                accept = http.headers.get("accept", "")
                negotiation.negotiate(  # upstream's handlers negotiate before they read a word
                    Request("create", accept=accept),
                    protobuf=_protobuf(server, target),
                    tables=tables,
                    routed=routed,
                    cbor=http.cbor,
                )
            raise
        chosen = negotiation.PLAIN
        if target.subresource not in CONNECT:  # whose answers are those of others
            chosen = negotiation.negotiate(
                request,
                protobuf=_protobuf(server, target),
                tables=tables,
                routed=routed,
                cbor=http.cbor,
            )
        if target.blank and routed and request.verb not in ("list", "watch"):
            raise status.bad_request("Namespace parameter required.")
        if request.verb == "watch":
            return _watch(server, request, chosen)
        response = yield from server.allowed_steps(request, now)
        answered = _rendered(server, request, response, chosen, now)
        if http.method == "HEAD":
            return HttpAnswer(answered.code, answered.headers, None, "")
        return answered
    except status.ApiError as error:
        response = failure(error)
        warns = error.code not in (404, 405) and not error.message.startswith(_BEFORE_ROUTES)
        if info is not None and (warns or info.custom is not None):
            response.warnings[:0] = server.deprecations(info)
        return failed(response, http.headers.get("accept", ""), cbor=http.cbor)


def _is_custom(info: ResourceInfo | None) -> bool:
    return info is not None and info.custom is not None


def _head(info: ResourceInfo | None, target: Target, accept: str) -> HttpAnswer:
    """Answer HEAD, which no route knows: 405 where a path has a route, else 404."""
    code = 404
    if info is not None:
        with suppress(status.ApiError):
            check_path(info, target)
            code = 405
    media = negotiation.error_media(accept) if accept else "application/json"
    return HttpAnswer(code, {"Content-Type": media}, None, "")


def _unknown_kind(http: HttpRequest) -> HttpAnswer:
    """Answer 500 to a path that ends after /watch or /proxy, for any client.

    Upstream: apiserver pkg/endpoints/filters/requestinfo.go.
    """
    url = http.path + (f"?{urlencode(http.query, doseq=True)}" if http.query else "")
    text = f'"{url}": failed to create RequestInfo: unable to determine kind and namespace from url, {url}'
    return HttpAnswer(*plain_answer(500, f"Internal Server Error: {escape(text, quote=False)}\n"))


_LONG_RUNNING = ("attach", "exec", "log", "portforward", "proxy")


def _check_timeout(http: HttpRequest, target: Target | None) -> None:
    """400 for a malformed time limit, except of requests that may run long.

    Upstream: apiserver pkg/endpoints/filters/request_deadline.go.
    """
    text = next(iter(http.query.get("timeout") or ()), "")
    if not text:
        return
    if target is not None and target.resource:
        watching = target.watch or flag(next(iter(http.query.get("watch") or ()), None))
        if target.subresource in _LONG_RUNNING or (watching and not target.name):
            return
    try:
        parse_duration(text)
    except ValueError as error:
        problem = f"invalid timeout specified in the request URL - {error}"
        raise status.bad_request(problem) from None


def _in_scope(info: ResourceInfo, target: Target, method: str) -> bool:
    """True if a custom resource has the path: in a namespace or in none, as its definition says.

    Outside of namespaces those in namespaces are only listed and watched.
    Upstream: apiextensions-apiserver pkg/apiserver/customresource_handler.go.
    """
    if not info.namespaced or target.namespace:
        return info.namespaced or not target.namespace
    return method in ("GET", "HEAD") and not target.name


def failed(response: Response, accept: str, *, cbor: bool = False) -> HttpAnswer:
    """An error, in the media type that the client accepts. `cbor`: CBOR is served."""
    media = negotiation.error_media(accept, cbor=cbor) if accept else ""
    if negotiation.Format(media).packs:
        return _packed(HttpAnswer(response.code, _headers(response, media), response.tree))
    return _plain(response, media or "application/json")


def _protobuf(server: ApiServer, target: Target) -> bool:
    """Return whether the target can be encoded in protobuf: custom resources cannot."""
    info = server.table.get(target.group, target.version, target.resource)
    if info is None or info.custom is not None:
        return False
    sub = info.subresources.get(target.subresource) if target.subresource else None
    if sub is None:
        return writing.writable(info.api_version, info.kind)
    group, version = sub.group or info.group, sub.version or info.version
    return writing.writable(f"{group}/{version}" if group else version, sub.kind)


def _packed(answered: HttpAnswer) -> HttpAnswer:
    """The answer with its body in protobuf or CBOR, or as it was in JSON if that cannot be."""
    listing = answered.listing
    if listing is not None and len(listing.items) > writing.AT_ONCE:
        answered.unpacked = True
    else:
        deque(answered.pack(), maxlen=0)
    return answered


def served_by(server: ApiServer) -> Served:
    """Return the server's facts that discovery and OpenAPI report."""
    options = server.options
    trouble = server.store.trouble
    return Served(
        server.table, options.build, options.address, trouble, options.token_key, options.earlier
    )


def _nonresource(server: ApiServer, http: HttpRequest) -> HttpAnswer:
    code, headers, tree, text = nonresource.answer(served_by(server), http)
    answered = HttpAnswer(code, headers, tree, text)
    return _packed(answered) if headers.get("Content-Type") == negotiation.PROTOBUF else answered


def _watch(
    server: ApiServer, request: Request, chosen: negotiation.Format
) -> HttpAnswer | WatchAnswer:
    opened = server.allowed_watch(request)
    if isinstance(opened, Response):
        return failed(opened, request.accept, cbor=serves_cbor(server))
    negotiation.check_stream(chosen, cbor=serves_cbor(server))
    if chosen.kind == "PartialObjectMetadataList":  # no event is one: the first ends the stream
        opened.capacity = 0
        if opened.drain():
            opened.stop()
    seconds = parse_int64(request.query.get("timeoutSeconds"))
    bookmarks = flag(request.query.get("allowWatchBookmarks"))
    return WatchAnswer(request, opened, seconds, bookmarks, chosen)


def serves_cbor(server: ApiServer) -> bool:
    """Return whether the server reads and writes CBOR (feature gate CBORServingAndStorage)."""
    return cbor.GATE in server.options.gates


def _custom(server: ApiServer, request: Request) -> bool:
    info = server.table.get(request.group, request.version, request.resource)
    return info is not None and info.custom is not None


def _headers(response: Response, content_type: str) -> dict[str, str | list[str]]:
    headers: dict[str, str | list[str]] = {"Content-Type": content_type}
    if response.warnings:
        texts = _short_enough(response.warnings)
        headers["Warning"] = [f'299 - "{_escaped(text)}"' for text in texts]
    headers.update(response.headers)
    return headers


def _short_enough(warnings: list[str]) -> list[str]:
    """Warnings, each once; cut, and the last ones left out, if they are too long together.

    Upstream: apiserver pkg/endpoints/filters/warning.go.
    """
    texts = list(dict.fromkeys(warnings))
    if sum(map(len, texts)) <= WARNING_RUNES:
        return texts
    kept: list[str] = []
    left = WARNING_RUNES
    for text in texts:
        cut = text[:WARNING_ITEM_RUNES]
        if len(cut) > left:
            break
        left -= len(cut)
        kept.append(cut)
    return kept


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _plain(response: Response, media: str = "application/json") -> HttpAnswer:
    return HttpAnswer(response.code, _headers(response, media), response.tree)


def _in_parts(
    info: ResourceInfo, request: Request, response: Response, chosen: negotiation.Format, now: int
) -> Rendering:
    """A long list in the chosen form. ApiError if it cannot have it."""
    items: Sequence[Object] = response.items or ()

    def part(at: int) -> Tree:
        some = evolve(response, items=list(items[at : at + writing.AT_ONCE]))
        return rendering.rendered(info, request, some, chosen, now)

    first = part(0)
    key = "rows" if "rows" in first else "items"

    def parts() -> Iterator[list[Tree]]:
        yield first[key]
        for at in range(writing.AT_ONCE, len(items), writing.AT_ONCE):
            yield part(at)[key]

    return Rendering({name: value for name, value in first.items() if name != key}, key, parts)


def _rendered(
    server: ApiServer, request: Request, response: Response, chosen: negotiation.Format, now: int
) -> HttpAnswer:
    if response.entered is not None:
        return HttpAnswer(response.code, {}, entered=response.entered)
    if response.code == 301:
        return HttpAnswer(301, dict(response.headers), None, "")
    if response.content is not None:
        headers = _headers(response, response.content_type)
        if response.followed is not None:
            log = LogAnswer(response.followed)
            return HttpAnswer(response.code, headers, None, response.content.decode(), log=log)
        if not response.content:
            del headers["Content-Type"]
            return HttpAnswer(204, headers, None, "")
        return HttpAnswer(response.code, headers, None, response.content.decode())
    if not response.ok:
        return failed(response, request.accept, cbor=serves_cbor(server))
    whole = not server.options.streams_lists
    headers = _headers(response, chosen.media_type)
    if response.items is not None and "items" in response.tree and not chosen.kind:
        head = {key: value for key, value in response.tree.items() if key != "items"}
        listing = Listing(head, response.items, typed=_custom(server, request))
        answered = HttpAnswer(response.code, headers, listing=listing, whole=whole)
        return _packed(answered) if chosen.packs else answered
    tree = response.tree
    numbers = False
    if chosen.kind and tree.get("kind") != "Status":
        info = server.resource(request.group, request.version, request.resource)
        numbers = is_whole(info.api_version)
        try:
            if response.items is not None and len(response.items) > writing.AT_ONCE:
                found = _in_parts(info, request, response, chosen, now)
                return HttpAnswer(
                    response.code,
                    headers,
                    rendering=found,
                    whole=whole,
                    whole_numbers=numbers,
                    unpacked=chosen.packs,
                )
            tree = rendering.rendered(info, request, response, chosen, now)
        except status.ApiError as error:
            return failed(
                failure(error, response.warnings), request.accept, cbor=serves_cbor(server)
            )
    obj = response.object if response.object is not None and response.object.tree is tree else None
    answered = HttpAnswer(
        response.code, headers, tree, object=obj, whole=whole, whole_numbers=numbers
    )
    return _packed(answered) if chosen.packs else answered
