"""The API server as one synchronous object: requests in, responses and watchers out.

Nothing waits here. `handle` answers a request at once, over a store of the server's own; `steps` are
the same handling, which asks a store elsewhere in between and is resumed with what it answers. How far a
watch cache lags is decided by the caller of `advance`. Everything undetermined (uids, name suffixes)
comes from the callables handed in at construction, and the time with each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final

from attrs import evolve

from controlplane.api.request import Request, Response
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.read_warnings import warnings_of
from controlplane.apiserver.kinds.strategy import Context, Lookup
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests import (
    aggregated,
    bootstrap,
    server_objects,
    subresources,
    usage,
)
from controlplane.apiserver.requests.admission.chain import Admission
from controlplane.apiserver.requests.admission.policies.mutating import (
    MutatingPolicies,
    Mutations,
)
from controlplane.apiserver.requests.admission.policies.parameters import Parameters
from controlplane.apiserver.requests.admission.policies.source import Source, Sources
from controlplane.apiserver.requests.admission.policies.validating import (
    Checks,
    ValidatingPolicies,
)
from controlplane.apiserver.requests.admission.webhooks import Webhooks
from controlplane.apiserver.requests.authorization import policy, rbac
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.requests.bodies import Bodies
from controlplane.apiserver.requests.caches import CacheMade, Caches
from controlplane.apiserver.requests.conversions import Conversions
from controlplane.apiserver.requests.definitions import Definitions
from controlplane.apiserver.requests.looked_up import LOOKED_UP
from controlplane.apiserver.requests.lookup import CacheLookup, StoreLookup, resource_named
from controlplane.apiserver.requests.memory import Account
from controlplane.apiserver.requests.notices import Notices
from controlplane.apiserver.requests.parts import Parts
from controlplane.apiserver.requests.reading import Reader
from controlplane.apiserver.requests.registries import Registries, no_such_resource
from controlplane.apiserver.requests.registry import Services
from controlplane.apiserver.requests.watching import Watching
from controlplane.apiserver.requests.writing import Writer
from controlplane.apiserver.schema import status, work
from controlplane.apiserver.schema.resources import ResourceInfo, builtin_resources
from controlplane.apiserver.storage.store import Store
from controlplane.apiserver.storage.transactions import AtHand, Steps
from controlplane.apiserver.storage.watch_cache import WatchCache, Watcher

__all__ = ["ApiServer", "failure"]

CRDS: Final = "customresourcedefinitions"
ADMITTING: Final = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
)
"""Resources of objects that admit others."""

INFORMED: Final = (
    "nodes",
    "persistentvolumes",
    "pods",
    "resourceslices",
    "secrets",
    "volumeattachments",
)
"""Resources beside those of admission plugins for which the server runs informers: the node authorizer, tokens."""


class ApiServer:
    """All resources over one store.

    `uid` makes object uids, `suffix` the five characters after a generateName. If the store is
    `shared`, `store` is only this server's copy of it: the caller performs the operations of
    `steps`. `account` counts the memory of answers under way, where a run limits it.
    `cache_made` is called with each new watch cache.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        uid: Callable[[], str],
        suffix: Callable[[], str],
        options: ServerOptions | None = None,
        shared: bool = False,
        account: Account | None = None,
        cache_made: CacheMade | None = None,
    ) -> None:
        self.store = store = store if store is not None else Store()
        self.options = options = options if options is not None else ServerOptions()
        self.memory = account
        self.at_hand = AtHand(store, work.lift)
        self.caches = Caches(store, options, cache_made)
        shelf = CacheLookup(self.caches.of) if shared else StoreLookup(store)
        self.lookup: Lookup = shelf
        self.access = Access(self.lookup, enabled=options.authorize)
        table = builtin_resources(options.release, options.gates, old=options.old_versions)
        self.parameters = Parameters(shelf, LOOKED_UP.union(INFORMED))
        policies = ValidatingPolicies(
            Source(
                shelf,
                table.by_kind,
                "validatingadmissionpolicies",
                "validatingadmissionpolicybindings",
                Checks,
                self._ever_written,
                self.parameters,
            ),
            self.parameters,
            table,
            self.access,
        )
        mutating = MutatingPolicies(
            Source(
                shelf,
                table.by_kind,
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicybindings",
                Mutations,
                self._ever_written,
                self.parameters,
            ),
            self.parameters,
            table,
            self.access,
            lambda ctx, tree: bodies.read(_unlabelled(ctx), tree),
        )
        self.policies = Sources(mutating.source, policies.source)
        self.webhooks = Webhooks(
            shelf,
            table,
            self.access,
            options.webhook_actor,
            self._ever_written,
            lambda ctx, tree: bodies.read(_unlabelled(ctx), tree),
            uid,
            self._converted,
        )
        admission = Admission(
            options.disabled,
            auto_namespaces=options.auto_namespaces,
            lookup_lags=shared,
            policies=policies,
            minor=int(options.build["minor"]),
            webhooks=self.webhooks,
            mutating=mutating,
            access=self.access,
        )
        self._suffix = suffix
        self._without_admitters = -1
        self._registered: set[tuple[str, str]] = set()
        self._cursors: dict[str, int] = {}
        services = Services(
            admission, self.access, uid, suffix, options.track_fields, options.keeps_successors
        )
        self.registries = Registries(services, table)
        self.table = table
        if options.measures_usage:
            usage.serve(self.table)
        aggregated.serve(self.table, options.aggregated.values())
        bodies = Bodies(self.registries, admission, options.earlier)
        self.conversions = Conversions(options.webhook_actor, self.lookup, self.table, uid)
        self._reader = Reader(
            self.registries,
            bodies,
            self.caches,
            store,
            self.conversions,
            deletes_as_listed=options.deletes_as_listed,
        )
        self._writer = Writer(self.registries, bodies, admission)
        self._watching = Watching(self.registries, bodies, self.caches, store, shared=shared)
        self._parts = Parts(
            options, self.registries, bodies, self._writer, self.access, uid, admission
        )
        self._definitions = Definitions(self.table, self.registries, self.caches)
        self._notices = Notices(options.notice_at_creation)
        self._verbs: dict[str, Callable[[Context], Steps[Response]]] = {
            "get": self._reader.get,
            "list": self._reader.list,
            "create": self._writer.create,
            "update": self._writer.update,
            "patch": self._writer.patch,
            "delete": self._writer.delete,
            "deletecollection": self._reader.delete_collection,
        }

    # -- caches and definitions ------------------------------------------------------------------

    def resource(self, group: str, version: str, resource: str) -> ResourceInfo:
        """The served resource; ApiError 404."""
        return self.registries.resource(group, version, resource)

    def cache_of(self, group: str, resource: str) -> WatchCache:
        """The watch cache of a built-in resource by group and name."""
        return self.caches.of(resource_named(group, resource))

    def advance(self, up_to: int | None = None) -> int:
        """Let every watch cache see the store's events up to `up_to` (None: all)."""
        return self.caches.advance(up_to)

    def settle(self, now: int) -> None:
        """Let what the server does on its own account happen, over a store of its own."""
        self.at_hand.run(self.settling(now))

    def none_admit(self) -> bool:
        """Return whether there never was a webhook or an admission policy: called on every request.

        The check is for keyspaces; while their number is unchanged, so are they.
        """
        keyspaces = self.store.keyspaces
        if self._without_admitters != len(keyspaces):
            if any(_prefix(resource) in keyspaces for resource in ADMITTING):
                return False
            self._without_admitters = len(keyspaces)
        return True

    def _converted(self, custom: Any, tree: Tree, version: str) -> Steps[Tree]:
        """A custom object in another version, by a call of its conversion webhook. ApiError."""
        return self.conversions.convert(custom, tree, version)

    def _ever_written(self, resource: str) -> bool:
        """Return whether an object of an admission resource was ever stored: called on every write."""
        space = self.store.keyspaces.get(_prefix(resource))
        return space is not None and bool(space.latest or space.entries)

    def settling(self, now: int) -> Steps[None]:
        """Custom resources come and go. Handling does this itself after a change of a definition."""
        yield from self._definitions.settle(now)
        if self.options.registers_groups:
            yield from self._registering(now)

    def _registering(self, now: int) -> Steps[None]:
        """Have an APIService for every version of custom resources that is served, and for no other.

        Upstream: kube-apiserver pkg/controlplane/controller/crdregistration.
        """
        wanted = {(info.group, info.version) for info in self.table if info.custom is not None}
        if wanted == self._registered:
            return
        for request in server_objects.registrations(wanted - self._registered, now):
            yield from self.allowed_steps(request, now)
        for request in server_objects.withdrawals(self._registered - wanted):
            yield from self.allowed_steps(request, now)
        self._registered = wanted

    def bootstrap(self, now: int) -> None:
        """Create the objects that every cluster starts with, as far as they are missing."""
        for request in bootstrap.missing(self.lookup):
            self._make(request, now)
        if self.options.authorize:
            self.install_roles(now)
        self.settle(now)

    def install_roles(self, now: int) -> None:
        """Create the default roles and bindings that are missing."""
        for request in policy.missing(self.lookup, self.options.gates):
            self._make(request, now)

    def install_server_objects(self, now: int, servers: Iterable[str]) -> None:
        """Create what servers of these names keep while they run, as far as it is missing."""
        served = dict.fromkeys((info.group, info.version) for info in self.table)
        versions = {
            (info.group, info.resource): info.version for info in reversed(list(self.table))
        }
        for request in server_objects.missing(self.lookup, served, servers, now):
            version = versions.get((request.group, request.resource))
            if version is not None:  # else an earlier release, without the resource
                self._make(evolve(request, version=version), now)

    def _make(self, request: Request, now: int) -> None:
        response = self.handle(request, now)
        assert response.ok, response.message

    # -- requests --------------------------------------------------------------------------------

    def handle(self, request: Request, now: int) -> Response:
        """Answer a request other than a watch, over the server's own store; failures are Status responses.

        What it wrote last, if it did, is then to be seen in `at_hand.written`.
        """
        if self.access.enabled:
            try:
                self.access.check(request.user, rbac.requested(request))
            except status.ApiError as error:
                return failure(error)
        info = self.table.get(request.group, request.version, request.resource)
        if info is None:
            return failure(no_such_resource())
        at_hand = self.at_hand
        ctx = self._context(info, request, now)
        work.on(work.Budget())
        try:
            response = at_hand.run(self._handling(ctx))
        except status.ApiError as error:
            return failure(error, ctx.warnings, ctx.audit)
        finally:
            work.on(work.FREE)
        response = self._warned(ctx, response)
        if info.resource == CRDS and request.verb not in ("get", "list"):
            at_hand.run(self.settling(now))
        return response

    def steps(self, request: Request, now: int) -> Steps[Response]:
        """The handling of a request other than a watch, access included."""
        if self.access.enabled:
            try:
                self.access.check(request.user, rbac.requested(request))
            except status.ApiError as error:
                return failure(error)
        return (yield from self.allowed_steps(request, now))

    def allowed_steps(self, request: Request, now: int) -> Steps[Response]:
        """Handle a request whose user is authorized. The caller runs it on a `work.Budget`."""
        info = self.table.get(request.group, request.version, request.resource)
        if info is None:
            return failure(no_such_resource())
        ctx = self._context(info, request, now)
        try:
            response = yield from self._handling(ctx)
        except status.ApiError as error:
            return failure(error, ctx.warnings, ctx.audit)
        response = self._warned(ctx, response)
        if info.resource == CRDS and request.verb not in ("get", "list"):
            yield from self.settling(now)
        return response

    def _context(self, info: ResourceInfo, request: Request, now: int) -> Context:
        return Context(
            info,
            request,
            now,
            self.registries.of(info).rules,
            self.lookup,
            self._suffix,
            self._cursors,
            self.options.track_fields,
            gates=self.options.gates,
            earlier=self.options.earlier,
        )

    def _warned(self, ctx: Context, response: Response) -> Response:
        """The answer with all warnings."""
        if response.code == 201 and not ctx.request.subresource:
            text = self._notices.at_creation(ctx.info, ctx.request, response.tree)
            if text:
                ctx.warn(text)
        if ctx.audit:
            response = evolve(response, audit=ctx.audit)
        if ctx.warnings and not response.warnings:
            return evolve(response, warnings=ctx.warnings)
        return response

    def _handling(self, ctx: Context) -> Steps[Response]:
        """Return the steps to the answer, by way of webhooks where these convert the resource. ApiError."""
        steps = self._dispatch(ctx)
        return self.conversions.over(ctx, steps) if self.conversions.concerns(ctx.info) else steps

    def _dispatch(self, ctx: Context) -> Steps[Response]:
        request, info = ctx.request, ctx.info
        if info.custom is not None and info.custom.deprecation:
            ctx.warn(info.custom.deprecation)
        if (
            request.subresource
            or subresources.is_virtual(info)
            or info.group in self.options.aggregated
        ):
            return subresources.handle(self._parts, ctx)
        verb = request.verb
        answer = self._verbs.get(verb)
        if verb not in info.verbs or answer is None:
            raise status.method_not_supported(info, verb)
        for text in self.deprecations(info) if info.custom is None else ():
            ctx.warn(text)
        return answer(ctx)

    def deprecations(self, info: ResourceInfo) -> tuple[str, ...]:
        """Return the warnings that every answer about a resource in this version brings."""
        if info.custom is not None:
            return (info.custom.deprecation,) if info.custom.deprecation else ()
        own = (info.deprecation,) if info.deprecation else ()
        return (*own, *warnings_of(info.group, info.resource, self.options.earlier))

    def wanted_revision(self, request: Request) -> tuple[WatchCache, int] | None:
        """The cache and revision that a read must wait for, or None if it can be answered now.

        A caller that models waiting asks this before `handle` and `watch`, and lets the cache
        advance; handling itself never waits.
        """
        return self._reader.wanted_revision(request)

    def watch(self, request: Request, now: int) -> Watcher | Response:
        """Open a watch; a Response is the answer to a request that cannot be one."""
        try:
            self.access.check(request.user, rbac.requested(request))
        except status.ApiError as error:
            return failure(error)
        return self.allowed_watch(request)

    def allowed_watch(self, request: Request) -> Watcher | Response:
        """Open a watch of an authorized user."""
        try:
            watcher = self._watching.open(request)
            self._notices.watch_opened(watcher.info, request)
            return watcher
        except status.ApiError as error:
            return failure(error)

    def send_bookmark(self, watcher: Watcher) -> None:
        """Queue a plain bookmark at the cache's revision for a watch that asked for bookmarks."""
        self._watching.send_bookmark(watcher)


@cache
def _prefix(resource: str) -> str:
    """Return the store's prefix of an admission resource."""
    return f"/registry/{resource}/"


def _unlabelled(ctx: Context) -> Context:
    """The same request, whose body's form is not looked at again."""
    query = {key: value for key, value in ctx.request.query.items() if key != "fieldValidation"}
    return evolve(ctx, request=evolve(ctx.request, path="", query=query))


def failure(
    error: status.ApiError,
    warnings: list[str] | None = None,
    audit: dict[str, str] | None = None,
) -> Response:
    """The response of a failed request."""
    response = Response(error.code, error.tree, warnings=warnings or [], audit=audit or {})
    if error.retry_after:
        response.headers["Retry-After"] = str(error.retry_after)
    return response
