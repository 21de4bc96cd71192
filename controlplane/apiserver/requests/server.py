"""The API server as one synchronous object: requests in, responses and watchers out.

Nothing waits here. Reads without a version see the store; how far a watch cache lags is decided by
whoever calls `advance`. Everything undetermined (uids, name suffixes) comes from the callables
handed in at construction, and the time with each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from controlplane.api.object import Object
from controlplane.api.request import Request, Response, User
from controlplane.apiserver.front import openapi
from controlplane.apiserver.front.discovery import BUILD, Answer
from controlplane.apiserver.kinds import conversion
from controlplane.apiserver.kinds.metadata import wiped
from controlplane.apiserver.kinds.selectable import interest_of
from controlplane.apiserver.kinds.strategies import strategy_for
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.requests import subresources
from controlplane.apiserver.requests.admission.chain import Admission
from controlplane.apiserver.requests.authorization import rbac
from controlplane.apiserver.requests.bootstrap import bootstrap
from controlplane.apiserver.requests.definitions import Definitions
from controlplane.apiserver.requests.listing import (
    Page,
    list_objects,
    parse_version,
    validate_list_options,
)
from controlplane.apiserver.requests.managed.applying import apply_object, track
from controlplane.apiserver.requests.memory import Account
from controlplane.apiserver.requests.options import check_write_options, delete_options, parse_flag
from controlplane.apiserver.requests.patching.apply_patch import patched
from controlplane.apiserver.requests.registry import Registry
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.codec import DecodeError, decode, strict_issues
from controlplane.apiserver.schema.resources import ResourceInfo, builtin_resources
from controlplane.apiserver.storage.shared_specs import SHARED
from controlplane.apiserver.storage.store import CompactedError, Store
from controlplane.apiserver.storage.watch_cache import (
    ERROR,
    Interest,
    WatchCache,
    Watcher,
    WatchEvent,
)

__all__ = ["ApiServer"]

Tree = dict[str, Any]

_INITIAL_END = "k8s.io/initial-events-end"


class ApiServer:
    """All resources over one store.

    `uid` makes object uids, `suffix` the five characters after a generateName. `disabled` names
    admission plugins to leave out. With `auto_namespaces` objects may be created in namespaces
    that do not exist. With `track_fields` every write records who owns which fields; server-side
    apply needs that, and it costs time. With `authorize` users are held to the stored roles; else
    everybody may do everything.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        uid: Callable[[], str],
        suffix: Callable[[], str],
        disabled: Iterable[str] = (),
        auto_namespaces: bool = False,
        track_fields: bool = False,
        authorize: bool = False,
        watch_window: int = 10_000,
    ) -> None:
        self.store = store if store is not None else Store()
        self.uid = uid
        self.suffix = suffix
        self.auto_namespaces = auto_namespaces
        self.track_fields = track_fields
        self.authorize = authorize
        self.table = builtin_resources()
        self.admission = Admission(self, disabled)
        self._watch_window = watch_window
        self._registries: dict[str, Registry] = {}
        self._by_name: dict[tuple[str, str], Registry] = {}
        self._caches: dict[str, WatchCache] = {}
        self._started = self.store.watches_since()
        self.namespaces = self.registry_of("", "namespaces")
        self.pods = self.registry_of("", "pods")
        self.cursors: dict[str, int] = {}
        self.exact_windows = True
        """Whether no watch begins before what a cache can serve (fix 49992)."""
        self.heard: Callable[[], int] | None = None
        """How far a server that shares its store has heard of it; None: this server hears at once."""
        self.address = "127.0.0.1:6443"
        self.build = BUILD
        self.components = dict.fromkeys(("scheduler", "controller-manager", "etcd-0"), "")
        """The parts that /componentstatuses tells of, with what is wrong with each."""
        self.streams_lists = True
        """Whether lists leave item by item, never assembled as a whole (fix 129334)."""
        self.memory: Account | None = None
        """What answers under way hold, where a run limits it."""
        self._definitions = Definitions(self)

    # -- finding things --------------------------------------------------------------------------

    def resource(self, group: str, version: str, resource: str) -> ResourceInfo:
        """The served resource; ApiError 404."""
        info = self.table.get(group, version, resource)
        if info is None:
            raise no_such_resource()
        return info

    def registry(self, info: ResourceInfo) -> Registry:
        """The registry behind a resource, shared by all its versions."""
        found = self._registries.get(info.storage_prefix)
        if found is None:
            hub = info
            if (info.group, info.version) != info.hub:
                other = self.table.get(*info.hub, info.resource)
                hub = other if other is not None else info
            found = Registry(self, hub, self.strategy(hub))
            self._registries[info.storage_prefix] = found
        return found

    def strategy(self, info: ResourceInfo) -> Strategy:
        """The rules of a resource's kind."""
        if info.custom is not None:
            custom: Strategy = info.custom.strategy
            return custom
        return strategy_for(info.group, info.resource)

    def registry_of(self, group: str, resource: str) -> Registry:
        """The registry of a built-in resource by group and name."""
        found = self._by_name.get((group, resource))
        if found is not None:
            return found
        for info in self.table:
            if info.group == group and info.resource == resource:
                found = self._by_name[group, resource] = self.registry(info)
                return found
        raise KeyError(f"{resource}.{group}")

    def cache(self, info: ResourceInfo) -> WatchCache:
        """The watch cache of a resource, made on first use."""
        found = self._caches.get(info.storage_prefix)
        if found is None:
            found = WatchCache(
                self.store.keyspace(info.storage_prefix),
                window=self._watch_window,
                by_node=info.resource == "pods" and not info.group,
                since=self._started,
                at=self.heard() if self.heard is not None else None,
                exact_window=self.exact_windows,
            )
            self._caches[info.storage_prefix] = found
        return found

    def cache_of(self, group: str, resource: str) -> WatchCache:
        """The watch cache of a built-in resource by group and name."""
        return self.cache(self.registry_of(group, resource).info)

    def caches(self) -> dict[str, WatchCache]:
        """All watch caches in use, by storage prefix."""
        return self._caches

    def advance(self, up_to: int | None = None) -> int:
        """Let every watch cache see the store's events up to `up_to` (None: all)."""
        store = self.store
        compacted = store.compacted
        target = store.revision if up_to is None else min(up_to, store.revision)
        count = 0
        for cache in list(self._caches.values()):
            revision = cache.revision
            if cache.keyspace.latest <= revision >= compacted:
                # Nothing was written there: the common case, so it costs no call.
                if revision < target:
                    cache.revision = target
            else:
                count += cache.advance(up_to)
        return count

    def has_news(self) -> bool:
        """Whether some watch cache has not seen all that was written of its resource."""
        return any(cache.keyspace.latest > cache.revision for cache in self._caches.values())

    def settle(self, now: int) -> None:
        """Let what the server does on its own account happen: custom resources come and go.

        `handle` does this itself after a change of a definition.
        """
        self._definitions.settle(now)

    def forget(self, storage_prefix: str) -> None:
        """Drop what was derived from a resource that is no longer served, or served otherwise."""
        self._registries.pop(storage_prefix, None)
        self._by_name.clear()
        found = self._caches.get(storage_prefix)
        if found is not None and not self.store.keyspace(storage_prefix).entries:
            del self._caches[storage_prefix]

    def bootstrap(self, now: int) -> None:
        """Create the objects that every cluster starts with, as far as they are missing."""
        bootstrap(self, now)
        self.settle(now)

    # -- requests --------------------------------------------------------------------------------

    def handle(self, request: Request, now: int) -> Response:
        """Answer a request other than a watch; failures are Status responses."""
        info = self.table.get(request.group, request.version, request.resource)
        if info is None:
            return failure(no_such_resource())
        ctx = Context(self, info, request, now)
        try:
            if self.authorize:
                self.check_allowed(request.user, rbac.requested(request))
            response = self._dispatch(ctx)
        except status.ApiError as error:
            return failure(error, ctx.warnings)
        if info.resource == "customresourcedefinitions" and request.verb not in ("get", "list"):
            self.settle(now)
        return response

    def check_allowed(self, user: User, asked: rbac.Attributes) -> None:
        """ApiError 403 for what the stored roles do not let the user do."""
        rbac.authorize(rbac.policy_of(self), user, asked)

    def _dispatch(self, ctx: Context) -> Response:
        request, info = ctx.request, ctx.info
        if request.subresource or info.resource in subresources.VIRTUAL:
            return subresources.handle(ctx)
        verb = request.verb
        if verb not in info.verbs:
            raise status.method_not_supported(info, verb)
        for text in self.registry(info).strategy.read_warnings():
            ctx.warn(text)
        if verb == "get":
            return self._get(ctx)
        if verb == "list":
            return self._list(ctx)
        if verb == "create":
            return self._create(ctx)
        if verb == "update":
            return self._update(ctx)
        if verb == "patch":
            return self._patch(ctx)
        if verb == "delete":
            return self._delete(ctx)
        if verb == "deletecollection":
            return self._delete_collection(ctx)
        raise status.method_not_supported(info, verb)

    # -- reading ---------------------------------------------------------------------------------

    def external(self, info: ResourceInfo, obj: Object) -> Object:
        """The object in the version asked for."""
        if obj.tree.get("apiVersion") == info.api_version:
            return obj
        if info.custom is not None:
            return Object(info.custom.external(obj.tree))
        return conversion.from_hub(info, obj)

    def _get(self, ctx: Context) -> Response:
        request, info = ctx.request, ctx.info
        version = request.query.get("resourceVersion", "") if request.query else ""
        registry = self.registry(info)
        if version:
            return self._get_cached(ctx, registry, version)
        obj = self.external(info, registry.get(request.namespace, request.name, info))
        return Response(200, obj.tree, obj, warnings=ctx.warnings or [])

    def _get_cached(self, ctx: Context, registry: Registry, version: str) -> Response:
        request, info = ctx.request, ctx.info
        try:
            wanted = parse_version(version)
        except ValueError as error:
            raise status.plain_error(
                f'resourceVersion: Invalid value: "{version}": {error}'
            ) from None
        cache = self.cache(info)
        if wanted > cache.revision:
            if wanted > self.store.revision:
                raise status.too_large_resource_version(wanted, cache.revision, 1)
            found = registry.find(request.namespace, request.name)
        else:
            found = cache.get(registry.key(request.namespace, request.name))
        if found is None:
            raise status.not_found(info, request.name)
        obj = self.external(info, found)
        return Response(200, obj.tree, obj)

    def _list(self, ctx: Context) -> Response:
        request, info = ctx.request, ctx.info
        interest = interest_of(info, request.namespace, request.name, request.query)
        registry = self.registry(info)
        page = list_objects(registry, self.cache(info), request, interest)
        response = self.list_response(info, page)
        response.warnings = ctx.warnings or []
        return response

    def list_response(self, info: ResourceInfo, page: Page) -> Response:
        """A list answer of a page."""
        items = page.items
        if (info.group, info.version) != info.hub:
            items = [self.external(info, obj) for obj in items]
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
        return Response(200, tree, items=items)

    def wanted_revision(self, request: Request) -> tuple[WatchCache, int] | None:
        """The cache and revision that a read must wait for, or None if it can be answered now.

        A caller that models waiting asks this before `handle` and `watch`, and lets the cache
        advance; `handle` itself never waits.
        """
        info = self.table.get(request.group, request.version, request.resource)
        if info is None or request.verb not in ("get", "list", "watch"):
            return None
        try:
            wanted = parse_version(request.query.get("resourceVersion", ""))
        except ValueError:
            return None
        cache = self.cache(info)
        if wanted > cache.revision and request.verb != "watch":
            return cache, wanted
        return None

    # -- watching --------------------------------------------------------------------------------

    def watch(self, request: Request, now: int) -> Watcher | Response:
        """Open a watch; a Response is the answer to a request that cannot be one."""
        try:
            if self.authorize:
                self.check_allowed(request.user, rbac.requested(request))
            return self._watch(request)
        except status.ApiError as error:
            return failure(error)

    def _watch(self, request: Request) -> Watcher:
        info = self.resource(request.group, request.version, request.resource)
        if "watch" not in info.verbs:
            raise status.method_not_supported(info, "watch")
        query = request.query
        errors = validate_list_options(query, watch=True)
        if errors:
            raise status.invalid_kind("meta.k8s.io", "ListOptions", "", errors)
        version = query.get("resourceVersion", "")
        try:
            wanted = parse_version(version)
        except ValueError as error:
            raise status.plain_error(
                f'resourceVersion: Invalid value: "{version}": {error}'
            ) from None
        interest = interest_of(info, request.namespace, request.name, query)
        cache = self.cache(info)
        initial_flag = query.get("sendInitialEvents")
        initial = not wanted if initial_flag is None else initial_flag not in ("0", "false")
        convert = None
        if (info.group, info.version) != info.hub:
            convert = lambda obj: self.external(info, obj)  # noqa: E731
        if initial:
            if version == "" and cache.lag() and self.heard is None:
                cache.advance()
            if wanted > cache.revision:
                failed = status.too_large_resource_version(wanted, cache.revision, 1)
                return _failed_watch(cache, interest, failed)
            watcher = cache.watch(interest, initial=True, convert=convert)
            if parse_flag(query.get("allowWatchBookmarks", "")):
                mark = self._bookmark(info, cache.revision, {_INITIAL_END: "true"})
                cache.bookmark(watcher, mark)
            return watcher
        if not version:
            start = self.store.revision
        else:
            start = wanted or cache.revision
        return self._watch_after(info, cache, interest, start, convert)

    def _watch_after(
        self,
        info: ResourceInfo,
        cache: WatchCache,
        interest: Interest,
        start: int,
        convert: Callable[[Object], Object] | None,
    ) -> Watcher:
        try:
            return cache.watch(interest, after=start, convert=convert)
        except CompactedError as error:
            text = f"too old resource version: {start} ({error.compacted})"
            if info.resource == "events":
                text = "The resourceVersion for the provided watch is too old."
            return _failed_watch(cache, interest, status.expired(text))

    def _bookmark(self, info: ResourceInfo, revision: int, annotations: Tree) -> Object:
        meta: Tree = {"resourceVersion": str(revision)}
        if annotations:
            meta["annotations"] = annotations
        tree = {"apiVersion": info.api_version, "kind": info.kind, "metadata": meta}
        if info.custom is None:
            tree = decode(info.type_name, tree)
        return Object(tree)

    def send_bookmark(self, request: Request, watcher: Watcher) -> None:
        """Queue a plain bookmark at the cache's revision for a watch that asked for bookmarks."""
        info = self.resource(request.group, request.version, request.resource)
        cache = self.cache(info)
        cache.bookmark(watcher, self._bookmark(info, cache.revision, {}))

    # -- writing ---------------------------------------------------------------------------------

    def read_body(
        self, ctx: Context, body: Any, old: Tree | None = None, info: ResourceInfo | None = None
    ) -> Tree:
        """A body as a canonical, defaulted tree of the stored version. ApiError 400."""
        info = info or ctx.info
        if info.custom is not None:
            tree: Tree = info.custom.read(ctx, body, old)
            return tree
        body = check_kind(self, info, body)
        request = ctx.request
        if request.path or "fieldValidation" in request.query:
            self._field_validation(ctx, info, body)
        hub_old = old
        if old is not None and (info.group, info.version) != info.hub:
            hub_old = None
        shared = SHARED.get(info.type_name) if old is None else None
        key = None if shared is None else shared.key(body)
        if key is not None:
            known = SHARED[info.type_name].read(key)
            if known is not None:
                # What is the old one is neither decoded nor defaulted again.
                body, hub_old = {**body, "spec": known}, {"spec": known}
        try:
            tree = decode(info.type_name, body, hub_old)
        except DecodeError as error:
            raise status.bad_request(
                f'{info.kind} in version "{info.version}" cannot be handled as a {info.kind}: '
                f"{error}"
            ) from None
        meta = tree.get("metadata")
        if meta is None:
            tree = {**tree, "metadata": {}}
        elif not meta.get("labels", True):
            meta = {key: value for key, value in meta.items() if key != "labels"}
            tree = {**tree, "metadata": meta}
        hub = self.registry(info).info
        if hub is not info and (info.group, info.version) != info.hub:
            tree = conversion.to_hub(info, tree, hub)
        tree = self.strategy(hub).defaults(tree, hub_old)
        if key is not None:
            SHARED[info.type_name].keep(key, tree["spec"])
        return tree

    def _field_validation(self, ctx: Context, info: ResourceInfo, body: Any) -> None:
        level = ctx.request.query.get("fieldValidation") or "Warn"
        if level == "Ignore":
            return
        issues = [*ctx.request.body_issues, *strict_issues(info.type_name, body)]
        if not issues:
            return
        if level == "Strict":
            raise status.bad_request(
                f'{info.kind} in version "{info.version}" cannot be handled as a {info.kind}: '
                f"strict decoding error: {', '.join(issues)}"
            )
        for issue in issues:
            for line in issue.removeprefix("yaml: unmarshal errors:\n").split("\n"):
                ctx.warn(line.strip())

    def _create(self, ctx: Context) -> Response:
        ctx.dry_run = check_write_options(ctx.request)
        tree = self.new_object(ctx, ctx.request.body)
        obj = self.external(ctx.info, self.registry(ctx.info).create(ctx, tree))
        return Response(201, obj.tree, obj, warnings=ctx.warnings or [])

    def new_object(self, ctx: Context, body: Any, *, tracked: bool = False) -> Tree:
        """A body as an object to create: wiped, placed in its namespace, admitted."""
        tree = self.read_body(ctx, body)
        meta = wiped(tree["metadata"])
        if ctx.info.namespaced:
            namespace = ctx.request.namespace
            given = meta.get("namespace")
            if given != namespace:
                if given:
                    raise _namespace_mismatch()
                meta = {**meta, "namespace": namespace}
        elif "namespace" in meta:
            meta = {key: value for key, value in meta.items() if key != "namespace"}
        meta = unique_owners(ctx, meta)
        if meta is not tree["metadata"]:
            tree = {**tree, "metadata": meta}
        if not tracked:
            tree = track(ctx, tree, None)
        admitted = self.admission.mutate(ctx, tree, None)
        shared = SHARED.get(ctx.info.type_name)
        if shared is None:
            return admitted
        spec = shared.admitted(tree["spec"], admitted["spec"])
        return admitted if spec is admitted["spec"] else {**admitted, "spec": spec}

    def _update(self, ctx: Context) -> Response:
        ctx.dry_run = check_write_options(ctx.request)
        obj, created = self.update_object(ctx)
        return Response(201 if created else 200, obj.tree, obj, warnings=ctx.warnings or [])

    def update_object(self, ctx: Context, sub: str = "") -> tuple[Object, bool]:
        """A PUT of an object or of its status; answers the object and whether it is new."""
        request, info = ctx.request, ctx.info
        registry = self.registry(info)
        found = registry.find(request.namespace, request.name)
        old = found.tree if found is not None else None
        body = self.read_body(ctx, request.body, old)
        body = self._check_identity(ctx, body)
        uid = body["metadata"].get("uid", "")

        def transform(current: Tree) -> Tree:
            return self.admission.mutate(ctx, track(ctx, body, current, sub), current)

        create = None
        if registry.strategy.create_on_update and not sub:
            create = lambda: self.new_object(ctx, request.body)  # noqa: E731
        obj, created = registry.update(
            ctx, request.namespace, request.name, transform, sub=sub, create=create, uid=uid
        )
        return self.external(info, obj), created

    def _check_identity(self, ctx: Context, tree: Tree) -> Tree:
        """Name and namespace of the body against those of the URL."""
        request, info = ctx.request, ctx.info
        meta = tree["metadata"]
        namespace = meta.get("namespace", "")
        if info.namespaced:
            if namespace != request.namespace:
                if namespace:
                    raise _namespace_mismatch()
                meta = {**meta, "namespace": request.namespace}
        elif namespace:
            meta = {key: value for key, value in meta.items() if key != "namespace"}
        name = meta.get("name", "")
        if not name:
            raise status.bad_request(
                f"the name of the object ({request.name} based on URL) was undeterminable: name "
                "must be provided"
            )
        if name != request.name:
            raise status.bad_request(
                f"the name of the object ({name}) does not match the name on the URL "
                f"({request.name})"
            )
        meta = unique_owners(ctx, meta)
        return tree if meta is tree["metadata"] else {**tree, "metadata": meta}

    def _patch(self, ctx: Context) -> Response:
        apply = ctx.request.content_type.startswith("application/apply-patch")
        ctx.dry_run = check_write_options(ctx.request, apply=apply)
        obj, created = self.patch_object(ctx)
        return Response(201 if created else 200, obj.tree, obj, warnings=ctx.warnings or [])

    def patch_object(self, ctx: Context, sub: str = "") -> tuple[Object, bool]:
        """A PATCH of an object or of its status; answers the object and whether it is new."""
        request, info = ctx.request, ctx.info
        registry = self.registry(info)
        found = registry.find(request.namespace, request.name)
        if request.content_type.startswith("application/apply-patch"):
            return apply_object(self, ctx, sub)
        if found is None:
            raise status.not_found(info, request.name)

        def transform(current: Tree) -> Tree:
            tree = patched(self, ctx, self.external(info, Object(current)).tree, current)
            tree = self._check_patched_identity(ctx, tree)
            return self.admission.mutate(ctx, track(ctx, tree, current, sub), current)

        obj, created = registry.update(ctx, request.namespace, request.name, transform, sub=sub)
        return self.external(info, obj), created

    def _check_patched_identity(self, ctx: Context, tree: Tree) -> Tree:
        return self._check_identity(ctx, tree)

    def openapi(self, path: str, http: HttpRequest) -> Answer:
        """OpenAPI documents."""
        return openapi.answer(self, path, http)

    def container_log(self, ctx: Context, pod: Object, container: str) -> Response:
        """The log of a running container; whoever has kubelets to ask replaces this."""
        node = pod.tree["spec"]["nodeName"]
        if self.registry_of("", "nodes").find("", node) is None:
            raise status.not_found(ctx.info, node)
        raise status.plain_error(
            f'Get "https://{node}:10250/containerLogs/{pod.namespace}/{pod.name}/{container}": '
            f"dial tcp: lookup {node}: no such host"
        )

    # -- deleting --------------------------------------------------------------------------------

    def _delete(self, ctx: Context) -> Response:
        options = delete_options(ctx.request)
        ctx.dry_run = options.dry_run
        return self.delete_object(ctx, options)

    def delete_object(self, ctx: Context, options: Any) -> Response:
        """Delete one object and answer as the kind does."""
        request, info = ctx.request, ctx.info
        registry = self.registry(info)
        registry.strategy.warn_delete(ctx, options)
        obj, gone = registry.delete(ctx, request.namespace, request.name, options)
        if gone and not registry.strategy.returns_deleted:
            details: Tree = {"name": obj.name, "kind": info.resource, "uid": obj.uid}
            if info.group:
                details["group"] = info.group
            return Response(200, status.success(details), warnings=ctx.warnings or [])
        obj = self.external(info, obj)
        code = 202 if not gone and options.orphan is False else 200
        return Response(code, obj.tree, obj, warnings=ctx.warnings or [])

    def _delete_collection(self, ctx: Context) -> Response:
        request, info = ctx.request, ctx.info
        options = delete_options(request)
        ctx.dry_run = options.dry_run
        interest = interest_of(info, request.namespace, "", request.query)
        self.registry(info).strategy.warn_delete(ctx, options)
        registry = self.registry(info)
        page = list_objects(registry, self.cache(info), request, interest)
        for obj in page.items:
            try:
                registry.delete(ctx, obj.namespace, obj.name, options.copy())
            except status.ApiError as error:
                if error.reason != "NotFound":
                    raise
        response = self.list_response(info, page)
        response.warnings = ctx.warnings or []
        return response


def _failed_watch(cache: WatchCache, interest: Interest, error: status.ApiError) -> Watcher:
    """A watch that ends with an error at once."""
    watcher = cache.watch(interest)
    watcher.push(WatchEvent(ERROR, Object(error.tree), 0))
    watcher.stop()
    return watcher


def no_such_resource() -> status.ApiError:
    """404 for a resource that is not served."""
    return status.ApiError(404, "NotFound", "the server could not find the requested resource", {})


def failure(error: status.ApiError, warnings: list[str] | None = None) -> Response:
    """The response of a failed request."""
    response = Response(error.code, error.tree, warnings=warnings or [])
    if error.retry_after:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _namespace_mismatch() -> status.ApiError:
    return status.bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def unique_owners(ctx: Context, meta: Tree) -> Tree:
    """Owner references without exact repetitions, with a warning if there were any."""
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return meta
    kept: list[Tree] = []
    repeated: list[str] = []
    for owner in owners:
        if owner in kept:
            repeated.append(owner.get("uid", ""))
        else:
            kept.append(owner)
    if len(kept) == len(owners):
        return meta
    ctx.warn(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references "
        f"in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(dict.fromkeys(repeated))}"
    )
    return {**meta, "ownerReferences": kept}


def check_kind(server: ApiServer, info: ResourceInfo, body: Any) -> Tree:
    """A body whose kind and version fit the resource. ApiError 400."""
    if not isinstance(body, dict):
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {info.kind}): couldn't get "
            "version/kind; json parse error: unexpected end of JSON input (<empty>)"
        )
    api_version, kind = body.get("apiVersion"), body.get("kind")
    if api_version == info.api_version and kind == info.kind:
        return body
    return conversion.check_foreign_kind(server, info, body)
