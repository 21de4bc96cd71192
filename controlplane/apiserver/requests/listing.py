"""Lists: checking the options, choosing the version, paging.

Upstream: apimachinery internalversion/validation, apiserver pkg/storage/{continue,etcd3,cacher}.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from typing import Any

from attrs import define, evolve, frozen

from controlplane.api.object import Object
from controlplane.apiserver.kinds.selectable import check_selectors
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.caches import Caches
from controlplane.apiserver.requests.options import parse_int64
from controlplane.apiserver.schema import go_json, status
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, not_supported
from controlplane.apiserver.schema.json_values import json_type
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.storage.transactions import Items, Range, Steps, TooNew, TooOld
from controlplane.apiserver.storage.watch_cache import Interest, Matcher, WatchCache

__all__ = [
    "Page",
    "check_list_options",
    "is_cached",
    "list_objects",
    "parse_version",
    "retry_seconds",
    "validate_list_options",
]

UINT64_DIGITS = 20
MOST_READ = 10_000
"""Keys of the largest read for a page (maxLimit of etcd3/store.go)."""
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_EXPIRED_LIST = "The resourceVersion for the provided list is too old."


@define
class Page:
    """One page of a list: objects, the version it is consistent at, and how to go on."""

    items: list[Object]
    revision: int
    token: str = ""
    remaining: int | None = None


def _go_parse_error(text: str) -> str:
    digits = text.isascii() and text.isdigit()
    what = "value out of range" if digits else "invalid syntax"
    return f'strconv.ParseUint: parsing "{text}": {what}'


def parse_version(text: str) -> int:
    """A resource version as a number; "" is 0. ValueError with Go's text otherwise."""
    if not text:
        return 0
    digits = text.isascii() and text.isdigit()
    significant = text.lstrip("0") or "0"
    if not digits or len(significant) > UINT64_DIGITS or int(significant) >= 2**64:
        raise ValueError(_go_parse_error(text))
    return int(significant)


_MATCH = "resourceVersionMatch"
_NOT_OLDER = "NotOlderThan"
_NOT_WITH_CONTINUE = "resourceVersionMatch is forbidden when continue is provided"


def validate_list_options(query: dict[str, str], *, watch: bool) -> list[FieldError]:
    """Forbidden combinations of resourceVersion, resourceVersionMatch, continue and sendInitialEvents.

    `watch`: the query asks for a watch. Paths with /watch/ are validated as lists.
    Upstream: apimachinery pkg/apis/meta/internalversion/{defaults,validation/validation}.go.
    """
    match = query.get(_MATCH, "")
    initial = "sendInitialEvents" in query
    if watch:
        if not match and not initial and query.get("resourceVersion", "") in ("", "0"):
            match, initial = _NOT_OLDER, True  # the defaults of a watch
        return list(_watch_errors(match, initial=initial, goes_on=bool(query.get("continue"))))
    errors = list(_match_errors(match, query)) if match else []
    if initial:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _match_errors(match: str, query: dict[str, str]) -> Iterator[FieldError]:
    version = query.get("resourceVersion", "")
    if not version:
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        yield forbidden(_MATCH, text)
    if query.get("continue"):
        yield forbidden(_MATCH, _NOT_WITH_CONTINUE)
    if match not in ("Exact", _NOT_OLDER):
        yield not_supported(_MATCH, match, ("Exact", _NOT_OLDER, ""), sort=False)
    if match == "Exact" and version == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        yield forbidden(_MATCH, text)


def _watch_errors(match: str, *, initial: bool, goes_on: bool) -> Iterator[FieldError]:
    if initial and match != _NOT_OLDER:
        text = f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"
        yield forbidden(_MATCH, text)
    if not match:
        return
    if not initial:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        yield forbidden(_MATCH, text)
    if match != _NOT_OLDER:
        yield not_supported(_MATCH, match, (_NOT_OLDER,))
    if goes_on:
        yield forbidden(_MATCH, _NOT_WITH_CONTINUE)


def encode_token(revision: int, start: str) -> str:
    """A continue token: from `start` on, at `revision` (-1: the newest)."""
    raw = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def decode_token(token: str) -> tuple[int, str]:
    """Revision and start of a token; ApiError 400 for anything else."""
    try:
        padded = token + "=" * (-len(token) % 4)
        if not set(token) <= _URL_SAFE:
            raise ValueError("illegal")
        parsed = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        problem = _token_mismatch(parsed)
        if problem:
            raise status.bad_request(
                f"invalid continue token: continue key is not valid: {problem}"
            )
        version = parsed.get("v") or ""
        revision, start = parsed.get("rv") or 0, parsed.get("start") or ""
        if version != "meta.k8s.io/v1":
            raise status.bad_request(
                "invalid continue token: continue key is not valid: server does not recognize "
                f"this encoded version {version}"
            )
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise status.bad_request("invalid continue token: " + _token_problem(token)) from None
    if revision == 0 or not start:
        raise status.bad_request(
            "invalid continue token: continue key is not valid: incorrect encoded start "
            "resourceVersion (version meta.k8s.io/v1)"
        )
    return revision, start


def _token_mismatch(parsed: Any) -> str:
    """Return why a JSON value is not a continue token, in the words of Go's decoder; "" if it is one."""
    if not isinstance(parsed, dict):
        return (
            f"json: cannot unmarshal {json_type(parsed)} into Go value of type "
            "storage.continueToken"
        )
    for key, wanted, name in (("v", str, "string"), ("rv", int, "int64"), ("start", str, "string")):
        value = parsed.get(key)
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            return (
                f"json: cannot unmarshal {json_type(value)} into Go struct field "
                f"continueToken.{key} of type {name}"
            )
    return ""


_URL_SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def _token_problem(token: str) -> str:
    for index, char in enumerate(token):
        if char not in _URL_SAFE:
            return f"continue key is not valid: illegal base64 data at input byte {index}"
    if len(token) % 4 == 1:
        at = len(token) - 1
        return f"continue key is not valid: illegal base64 data at input byte {at}"
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    problem = go_json.syntax_error(raw.decode(errors="surrogateescape"))
    return f"continue key is not valid: {problem}" if problem else "continue key is not valid"


def check_list_options(query: dict[str, str], *, watch: bool = False) -> None:
    """Refuse options that cannot be, before anything else is looked at. ApiError 400, 422.

    Numbers are decoded first, then selectors, as upstream converts the query.
    """
    parse_int64(query.get("timeoutSeconds"))
    parse_int64(query.get("limit"))
    check_selectors(query)
    errors = validate_list_options(query, watch=watch)
    if errors:
        raise status.invalid_kind("meta.k8s.io", "ListOptions", "", errors)


def list_objects(ctx: Context, caches: Caches, interest: Interest) -> Steps[Page]:
    """The objects that a list request selects. ApiError for versions that cannot be served."""
    info, query = ctx.info, ctx.request.query
    limit = max(parse_int64(query.get("limit")), 0)
    version, match, token = (
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        query.get("continue", ""),
    )
    revision = relative = None
    if token:
        revision, relative = decode_token(token)
        if version and version != "0":
            text = "specifying resource version is not allowed when using continue"
            raise status.bad_request(text)
    try:
        wanted = parse_version(version)
    except ValueError as error:
        raise status.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{version}": {error}'
        ) from None
    prefix = _prefix(interest.namespace, interest.name, namespaced=info.namespaced)
    base = _prefix(ctx.request.namespace, "", namespaced=info.namespaced)
    cached = is_cached(info)
    if (version and cached and token) or _is_single(interest, prefix, namespaced=info.namespaced):
        limit = 0
    asked = _Asked(info, interest, prefix, base, limit)
    if revision is not None and relative is not None:
        page = yield from _continued(asked, revision, relative)
    elif (match == "Exact" and wanted) or (wanted and limit and not match):
        page = yield from _exact(asked, wanted)
    elif version == "0" and cached:
        cache = caches.of(info)
        page = _cached(evolve(asked, limit=0), cache)
    elif wanted:
        page = yield from _not_older(asked, caches.of(info), wanted)
    else:
        found = yield from _stored(asked)
        assert isinstance(found, Page), "what is there now is neither too old nor too new"
        page = found
    if query.get("labelSelector") or query.get("fieldSelector"):
        page.remaining = None
    return page


def _prefix(namespace: str, name: str, *, namespaced: bool) -> str:
    """The beginning of the keys of a namespace, of one object, or of all objects."""
    if namespace:
        return f"{namespace}/{name}"
    return "" if namespaced else name


def _is_single(interest: Interest, prefix: str, *, namespaced: bool) -> bool:
    """Return whether one key is asked for: its read knows no limit. Upstream: registry Store.ListPredicate."""
    return bool(interest.name and prefix and (interest.namespace or not namespaced))


def is_cached(info: ResourceInfo) -> bool:
    """Return whether reads may be served from a watch cache: those of Events go to the store.

    Upstream: pkg/kubeapiserver/options, DefaultWatchCacheSizes.
    """
    return info.resource != "events" or info.custom is not None


def retry_seconds(info: ResourceInfo) -> int:
    """Seconds after which a client may ask again for a version that is not there yet; the store tells none."""
    return int(is_cached(info))


@frozen
class _Asked:
    """A list request: the keys that it may select, the beginning of keys that a token leaves out, its limit."""

    info: ResourceInfo
    interest: Interest
    prefix: str
    base: str
    limit: int

    @property
    def selects(self) -> bool:
        """Return whether the objects of these keys are not all wanted."""
        interest = self.interest
        return interest.matches is not None or bool(interest.node or interest.name)

    @property
    def only_matches(self) -> Matcher | None:
        """Return the one test that `wants` comes to, None where it is more than that."""
        interest = self.interest
        return None if interest.name or interest.node else interest.matches

    def wants(self, key: str, obj: Object) -> bool:
        """Return whether an object under these keys is wanted."""
        interest = self.interest
        if interest.name and key.rpartition("/")[2] != interest.name:
            return False
        return _matches(obj, interest)


def _continued(asked: _Asked, revision: int, relative: str) -> Steps[Page]:
    """Return the page from a token's key on."""
    found = yield from _stored(asked, max(revision, 0), asked.base + relative)
    if isinstance(found, TooOld):
        raise status.expired(_EXPIRED, {"continue": encode_token(-1, relative)})
    if isinstance(found, TooNew):
        raise status.too_large_resource_version(revision, found.current, 0)
    return found


def _exact(asked: _Asked, wanted: int) -> Steps[Page]:
    """Return the first page as of a revision."""
    found = yield from _stored(asked, wanted)
    if isinstance(found, TooOld):
        raise status.expired(_EXPIRED_LIST)
    if isinstance(found, TooNew):
        raise status.too_large_resource_version(wanted, found.current, retry_seconds(asked.info))
    return found


def _not_older(asked: _Asked, cache: WatchCache, wanted: int) -> Steps[Page]:
    """Return a page from the cache, or from the store where the cache is older than the revision."""
    if cache.revision >= wanted:
        return _cached(asked, cache)
    found: Items = yield Range(asked.info.storage_prefix, asked.prefix)
    if found.revision >= wanted:
        return _whole(asked, found.items, found.revision)
    raise status.too_large_resource_version(wanted, cache.revision, retry_seconds(asked.info))


def _cached(asked: _Asked, cache: WatchCache) -> Page:
    """Return the first page from the cache, read by read as from the store."""
    found: list[Object] = []
    since, most = "", asked.limit
    while True:
        items, left = cache.page(asked.prefix, since, most)
        page = _page(asked, items, cache.revision, left, found)
        if page is not None:
            return page
        since = items[-1][0] + "\0"
        most = min(2 * most, MOST_READ)


def _stored(asked: _Asked, revision: int = 0, since: str = "") -> Steps[Page | TooOld | TooNew]:
    """Return a page from the store, or why the revision is not there.

    A page of all keys is one read. With a selector further reads follow until the page is full, each twice as large,
    at the revision of the first one. Upstream: apiserver pkg/storage/etcd3/store.go, GetList.
    """
    found: list[Object] = []
    most = asked.limit
    while True:
        read = yield Range(asked.info.storage_prefix, asked.prefix, revision, since, most)
        if not isinstance(read, Items):
            refused: TooOld | TooNew = read
            return refused
        page = _page(asked, read.items, read.revision, read.left, found)
        if page is not None:
            return page
        since, revision = read.items[-1][0] + "\0", read.revision
        most = min(2 * most, MOST_READ)


def _whole(asked: _Asked, items: Sequence[tuple[str, Object]], revision: int) -> Page:
    """Return the first page of all items."""
    page = _page(asked, items, revision, 0, [])
    assert page is not None, "nothing is left"
    return page


def _page(
    asked: _Asked,
    items: Sequence[tuple[str, Object]],
    revision: int,
    left: int,
    found: list[Object],
) -> Page | None:
    """Add the wanted ones of these items to `found`; return the page once it is full or nothing is `left`."""
    limit = asked.limit
    if not asked.selects:
        if not limit:
            return Page([obj for _, obj in items], revision)
        taken = min(limit - len(found), len(items))
        found += [obj for _, obj in items[:taken]]
    elif not limit:
        return Page([obj for key, obj in items if asked.wants(key, obj)], revision)
    else:
        taken = 0
        labels_and_fields = asked.only_matches
        for key, obj in items:
            if len(found) >= limit:
                break
            taken += 1
            if labels_and_fields(obj) if labels_and_fields else asked.wants(key, obj):
                found.append(obj)
    left += len(items) - taken
    if not left:
        return Page(found, revision)
    if len(found) < limit:
        return None
    token = encode_token(revision, items[taken - 1][0][len(asked.base) :] + "\0")
    return Page(found, revision, token, None if asked.selects else left)


def _matches(obj: Object, interest: Interest) -> bool:
    if interest.node:
        spec = obj.tree.get("spec")
        if not spec or spec.get("nodeName") != interest.node:
            return False
    return interest.matches is None or interest.matches(obj)
