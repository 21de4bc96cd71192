"""GET of one object and of many, and what is deleted as a list."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from controlplane.api.object import Object
from controlplane.api.request import Request, Response
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.kinds.selectable import interest_of
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.bodies import Bodies
from controlplane.apiserver.requests.caches import Caches
from controlplane.apiserver.requests.conversions import Conversions
from controlplane.apiserver.requests.listing import (
    Page,
    check_list_options,
    is_cached,
    list_objects,
    parse_version,
    retry_seconds,
)
from controlplane.apiserver.requests.options import delete_options
from controlplane.apiserver.requests.registries import Registries
from controlplane.apiserver.requests.registry import Registry
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.storage.store import Store
from controlplane.apiserver.storage.transactions import Get, Live, Steps
from controlplane.apiserver.storage.watch_cache import Interest, WatchCache

__all__ = ["Reader"]


class Reader:
    """Reads objects, over the registries and caches of one server."""

    def __init__(
        self,
        registries: Registries,
        bodies: Bodies,
        caches: Caches,
        store: Store,
        conversions: Conversions,
        *,
        deletes_as_listed: bool = False,
    ) -> None:
        self._registries = registries
        self._bodies = bodies
        self._caches = caches
        self._store = store
        self._conversions = conversions
        self._deletes_as_listed = deletes_as_listed

    def get(self, ctx: Context) -> Steps[Response]:
        """GET of one object."""
        request, info = ctx.request, ctx.info
        version = request.query.get("resourceVersion", "") if request.query else ""
        registry = self._registries.of(info)
        if version:
            return (yield from self._get_cached(ctx, registry, version))
        found: Live | None = yield registry.reading(request.namespace, request.name)
        if found is None:
            raise status.not_found(ctx.info, ctx.request.name)
        obj = self._bodies.external(ctx.info, found.object)
        return Response(200, obj.tree, obj, warnings=ctx.warnings or [])

    def _get_cached(self, ctx: Context, registry: Registry, version: str) -> Steps[Response]:
        request, info = ctx.request, ctx.info
        key = registry.key(request.namespace, request.name)  # refuses names before versions
        try:
            wanted = parse_version(version)
        except ValueError as error:
            text = f'resourceVersion: Invalid value: "{version}": {error}'
            if is_cached(info):
                raise status.plain_error(text) from None
            raise status.bad_request(f"invalid resource version: {text}") from None
        cache = self._caches.of(info)
        if wanted > cache.revision or not is_cached(info):
            if wanted > self._store.revision:
                raise status.too_large_resource_version(wanted, cache.revision, retry_seconds(info))
            found = yield from registry.find(request.namespace, request.name)
        else:
            found = cache.get(key)
            if found is not None and self._conversions.concerns(info):
                found = yield from self._conversions.shown(info, found)
        if found is None:
            raise status.not_found(info, request.name)
        obj = self._bodies.external(info, found)
        return Response(200, obj.tree, obj)

    def list(self, ctx: Context) -> Steps[Response]:
        """GET of many."""
        request, info = ctx.request, ctx.info
        check_list_options(request.query)
        interest = interest_of(info, request.namespace, request.name, request.query)
        page = yield from self._page(ctx, interest)
        return self.list_response(info, page, ctx.warnings)

    def _page(self, ctx: Context, interest: Interest) -> Steps[Page]:
        """The objects of a list, in the version asked for as far as webhooks convert them."""
        page = yield from list_objects(ctx, self._caches, interest)
        if self._conversions.concerns(ctx.info):
            items = yield from self._conversions.all_shown(ctx.info, page.items)
            page = evolve(page, items=items)
        return page

    def list_response(
        self, info: ResourceInfo, page: Page, warnings: Sequence[str] | None = None
    ) -> Response:
        """A list answer of a page."""
        items = page.items
        if info.custom is not None or (info.group, info.version) != info.hub:
            items = [self._bodies.external(info, obj) for obj in items]
        meta: Tree = {"resourceVersion": str(page.revision)}
        if page.token:
            meta["continue"] = page.token
        elif info.custom is not None:
            meta["continue"] = ""
        if page.remaining:
            meta["remainingItemCount"] = page.remaining
        tree = {
            "apiVersion": info.api_version,
            "kind": f"{info.kind}List" if info.custom is None else info.custom.list_kind,
            "metadata": meta,
            "items": [obj.tree for obj in items],
        }
        return Response(200, tree, items=items, warnings=list(warnings or ()))

    def delete_collection(self, ctx: Context) -> Steps[Response]:
        """DELETE of everything that a list would show."""
        request, info = ctx.request, ctx.info
        check_list_options(request.query)
        interest = interest_of(info, request.namespace, "", request.query)
        options = delete_options(request)
        ctx.dry_run = options.dry_run
        registry = self._registries.of(info)
        registry.strategy.warn_delete(ctx, options)
        page = yield from self._page(ctx, interest)
        for obj in page.items:
            try:
                if self._deletes_as_listed:
                    yield from _delete_as_listed(ctx, registry, interest, obj, options)
                else:
                    yield from registry.delete(ctx, obj.namespace, obj.name, options.copy())
            except status.ApiError as error:
                if error.reason != "NotFound":
                    raise
        return self.list_response(info, page, ctx.warnings)

    def wanted_revision(self, request: Request) -> tuple[WatchCache, int] | None:
        """The cache and revision that a read must wait for, or None if it can be answered now.

        A caller that models waiting asks this before `handle` and `watch`, and lets the cache
        advance; `handle` itself never waits.
        """
        info = self._registries.table.get(request.group, request.version, request.resource)
        if info is None or request.verb not in ("get", "list", "watch"):
            return None
        try:
            wanted = parse_version(request.query.get("resourceVersion", ""))
        except ValueError:
            return None
        cache = self._caches.of(info)
        if wanted > cache.revision and request.verb != "watch":
            return cache, wanted
        return None


def _delete_as_listed(
    ctx: Context, registry: Registry, interest: Interest, obj: Object, options: DeleteOptions
) -> Steps[None]:
    """Delete an object of a list as long as it is the listed one and still belongs to the list (gate here1)."""
    matches, uid = interest.matches, obj.uid
    while True:
        asked = options.copy()
        if asked.uid is None and asked.version is None:
            asked.uid, asked.version = uid, str(obj.resource_version)
        try:
            yield from registry.delete(ctx, obj.namespace, obj.name, asked)
        except status.ApiError as error:
            if error.reason != "Conflict" or asked.version == options.version:
                raise
        else:
            return
        newest: Live | None = yield Get(registry.prefix, registry.key(obj.namespace, obj.name))
        if newest is None or newest.object.uid != uid:
            return
        obj = newest.object
        if matches is not None and not matches(obj):
            return
