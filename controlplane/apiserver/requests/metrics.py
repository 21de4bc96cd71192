"""Metrics of an API server, under upstream's names.

Durations are of virtual time: a request without a conflict is answered in no time. Unlike
upstream a watch counts when it is opened, not when it has ended, and has no duration. Requests to etcd
are not counted: the store is part of this process.
Upstream: apiserver pkg/endpoints/metrics, pkg/storage/etcd3/metrics, pkg/storage/cacher/metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.apiserver.requests.authorization import rbac
from controlplane.metrics.family import NANOSECONDS, Series
from controlplane.metrics.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controlplane.api.request import Request
    from controlplane.apiserver.requests.routing import HttpRequest
    from controlplane.apiserver.requests.server import ApiServer
    from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable
    from controlplane.apiserver.storage.watch_cache import Watcher
    from controlplane.metrics.family import Family

__all__ = ["Key", "RequestMetrics", "families", "key_of", "key_of_http"]

_MS: Final = 1_000_000
_BOUNDS: Final = tuple(
    ms * _MS
    for ms in (
        5,
        25,
        50,
        100,
        200,
        400,
        600,
        800,
        1000,
        1250,
        1500,
        2000,
        3000,
        4000,
        5000,
        6000,
        8000,
        10_000,
        15_000,
        20_000,
        30_000,
        45_000,
        60_000,
    )
)
_LABELS: Final = ("verb", "dry_run", "group", "version", "resource", "subresource", "scope")
_WATCHED: Final = ("verb", "group", "version", "resource", "subresource", "scope", "component")
_KIND: Final = ("group", "resource")
COMPONENT: Final = "apiserver"
_REQUESTS: Final = Series(
    "apiserver_request_total",
    "counter",
    "Answered requests, by what was asked and by the code of the answer.",
    (*_LABELS, "component", "code"),
)
_DURATIONS: Final = Series(
    "apiserver_request_duration_seconds",
    "histogram",
    "Virtual time from a request's arrival to its answer.",
    (*_LABELS, "component"),
    _BOUNDS,
    NANOSECONDS,
)
_LONG_RUNNING: Final = Series(
    "apiserver_longrunning_requests", "gauge", "Watches that are open.", _WATCHED
)
_IN_FLIGHT: Final = Series(
    "apiserver_current_inflight_requests",
    "gauge",
    "Requests that are being answered at present, part by part.",
    ("request_kind",),
)
_OBJECTS: Final = Series(
    "apiserver_resource_objects", "gauge", "Stored objects of a resource.", _KIND
)
_STORED: Final = Series(
    "apiserver_storage_objects",
    "gauge",
    "Stored objects of a resource (deprecated: apiserver_resource_objects).",
    ("resource",),
)
_RECEIVED: Final = Series(
    "apiserver_watch_cache_events_received_total",
    "counter",
    "Events that a resource's watch cache has taken from the store.",
    _KIND,
)
_VERSION: Final = Series(
    "apiserver_watch_cache_resource_version",
    "gauge",
    "Revision of the store up to which a resource's watch cache has come.",
    _KIND,
)

_VERBS: Final = {"create": "POST", "update": "PUT"}
_APPLY: Final = "application/apply-patch"
_WRITES: Final = ("APPLY", "DELETE", "DELETECOLLECTION", "PATCH", "POST", "PUT")
_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "CONNECT"))
_OTHER: Final = "other"
_KEPT_WATCHES: Final = 256

Key = tuple[str, str, str, str, str, str, str]
"""verb, dry_run, group, version, resource, subresource, scope"""


def key_of(request: Request) -> Key:
    """The labels of a component's request."""
    return (
        _verb(request.verb, request.content_type),
        "All" if "dryRun" in request.query else "",
        request.group,
        request.version,
        request.resource,
        request.subresource,
        _scope(request.namespace, request.name),
    )


def key_of_http(http: HttpRequest, code: int, table: ResourceTable) -> Key:
    """Return the labels of a request from outside.

    Only words that the server itself knows become labels, so that no client can make series without end: served
    resources and their subresources, the first part of a path that was answered, and the methods of HTTP.
    """
    target = http.target
    method = http.method if http.method in _METHODS else _OTHER
    if target is None or not target.resource:
        path = "/" + http.path.split("/", 2)[1] if code < 400 and "/" in http.path else ""
        return (method, "", "", "", "", path, "")
    info = table.get(target.group, target.version, target.resource)
    sub = target.subresource
    if info is None or method == _OTHER or (sub and sub not in info.subresources):
        return (method, "", "", "", "", "", "")
    asked = rbac.attributes_of(http)
    return (
        _verb(asked.verb, http.headers.get("content-type", "")),
        "All" if http.query.get("dryRun") else "",
        target.group,
        target.version,
        target.resource,
        sub,
        _scope(target.namespace, asked.name),
    )


def _verb(verb: str, content_type: str) -> str:
    if verb == "patch" and content_type.startswith(_APPLY):
        return "APPLY"
    return _VERBS.get(verb) or verb.upper()


def _scope(namespace: str, name: str) -> str:
    if namespace:
        return "namespace"
    return "resource" if name else "cluster"


class RequestMetrics:
    """Counts one server's answers. Times are nanoseconds; what can be read off the server is not kept twice."""

    def __init__(self) -> None:
        self.codes: dict[tuple[Key, int], int] = {}
        self.durations: dict[Key, Histogram] = {}
        self._watches: list[tuple[Key, Watcher]] = []
        self._looked = 0

    def answered(self, key: Key, code: int, took: int) -> None:
        """A request has its answer."""
        at = (key, code)
        self.codes[at] = self.codes.get(at, 0) + 1
        known = self.durations.get(key)
        if known is None:
            known = self.durations[key] = _DURATIONS.histogram()
        known.observe(took)

    def watched(self, key: Key, watcher: Watcher | None, code: int = 200) -> None:
        """A watch was opened, or refused (None)."""
        at = (key, code)
        self.codes[at] = self.codes.get(at, 0) + 1
        if watcher is None:
            return
        self._watches.append((key, watcher))
        if len(self._watches) >= 2 * self._looked + _KEPT_WATCHES:
            self._watches = [each for each in self._watches if not each[1].closed]
            self._looked = len(self._watches)

    def open_watches(self) -> dict[Key, int]:
        """Return the number of open watches."""
        found: dict[Key, int] = {}
        for key, watcher in self._watches:
            if not watcher.closed:
                found[key] = found.get(key, 0) + 1
        return found


def families(
    core: ApiServer, metrics: RequestMetrics, under_way: Iterable[bool]
) -> Iterator[Family]:
    """A snapshot of a server's numbers. `under_way`: of each request in parts, whether it writes."""
    yield _REQUESTS.family(
        {(*key, COMPONENT, str(code)): count for (key, code), count in metrics.codes.items()}
    )
    yield _DURATIONS.family({(*key, COMPONENT): each for key, each in metrics.durations.items()})
    yield _LONG_RUNNING.family(
        {
            (verb, *rest, COMPONENT): count
            for (verb, _, *rest), count in metrics.open_watches().items()
        }
    )
    writes = list(under_way)
    mutating = sum(writes)
    yield _IN_FLIGHT.family({("mutating",): mutating, ("readOnly",): len(writes) - mutating})
    resources = {info.storage_prefix: info for info in core.table}
    stored = {
        _named(resources[prefix]): len(space.entries)
        for prefix, space in core.store.keyspaces.items()
        if prefix in resources
    }
    yield _OBJECTS.family(stored)
    yield _STORED.family({(_joined(*name),): count for name, count in stored.items()})
    caches = {
        _named(resources[prefix]): cache
        for prefix, cache in core.caches.known().items()
        if prefix in resources
    }
    yield _RECEIVED.family({name: cache.received for name, cache in caches.items()})
    yield _VERSION.family({name: cache.revision for name, cache in caches.items()})


def _named(info: ResourceInfo) -> tuple[str, str]:
    return info.group, info.resource


def _joined(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource
