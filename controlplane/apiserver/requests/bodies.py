"""From what a client sends to the tree that is stored, and back to the version that it asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.api.equality import Seen
from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import conversion
from controlplane.apiserver.kinds.metadata import wiped
from controlplane.apiserver.kinds.strategy import Context
from controlplane.apiserver.requests.admission.chain import Admission, Wanted
from controlplane.apiserver.requests.managed.ordinary import track
from controlplane.apiserver.requests.registries import Registries
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.codec import DecodeError, decode, strict_issues
from controlplane.apiserver.schema.releases import without_younger
from controlplane.apiserver.schema.resources import ResourceInfo, ResourceTable
from controlplane.apiserver.storage.shared_specs import SHARED
from controlplane.apiserver.storage.transactions import Steps
from controlplane.sharing.memory import Memory

__all__ = ["Bodies", "admitted_owners", "identified"]


class Bodies:
    """Reading and converting the objects of one server."""

    def __init__(self, registries: Registries, admission: Admission, earlier: str = "") -> None:
        self._registries = registries
        self._admission = admission
        self._earlier = earlier

    def external(self, info: ResourceInfo, obj: Object) -> Object:
        """The object in the version asked for."""
        if info.custom is not None:
            if info.custom.webhook is not None:
                return obj  # handling works in this version, see `conversions`
            shown: Object = info.custom.shown(obj)
            return shown
        if obj.tree.get("apiVersion") == info.api_version:
            return obj
        return conversion.from_hub(info, obj)

    def read(
        self,
        ctx: Context,
        body: Any,
        old: Tree | None = None,
        info: ResourceInfo | None = None,
        *,
        exact: bool = False,
    ) -> Tree:
        """A body as a canonical, defaulted tree of the stored version. ApiError 400.

        `exact`: keys of another case do not tell its kind, as in a body that upstream does not read as JSON.
        """
        info = info or ctx.info
        if info.custom is not None:
            tree: Tree = info.custom.read(ctx, body, old)
            return tree
        try:
            body = check_kind(self._registries.table, info, body, exact=exact)
        except status.ApiError as error:
            if error.message.startswith(_OTHER_VERSION):
                self._told_of_version(ctx, info, body)
            raise
        request = ctx.request
        given = ctx.document = body
        younger: list[str] = []
        if self._earlier:
            body, younger = without_younger(info.type_name, body, self._earlier)
        hub_old = old
        if old is not None and (info.group, info.version) != info.hub:
            hub_old = None
        shared = SHARED.get(info.type_name) if old is None and not self._earlier else None
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
        if request.path or "fieldValidation" in request.query:
            self.field_validation(ctx, info.type_name, info.version, given, younger)
        meta = tree.get("metadata")
        if meta is None:
            tree = {**tree, "metadata": {}}
        elif not meta.get("labels", True):
            meta = {key: value for key, value in meta.items() if key != "labels"}
            tree = {**tree, "metadata": meta}
        hub = self._registries.of(info).info
        if hub is not info and (info.group, info.version) != info.hub:
            tree = conversion.to_hub(info, tree, hub)
        strategy = self._registries.strategy(hub)
        tree = strategy.defaults(tree, hub_old)
        if strategy.timed_defaults:
            tree = strategy.timed(ctx, tree)
        if self._earlier:
            tree, _ = without_younger(info.type_name, tree, self._earlier)
        if key is not None:
            SHARED[info.type_name].keep(key, tree["spec"])
        return tree

    def _told_of_version(self, ctx: Context, info: ResourceInfo, body: Tree) -> None:
        """Tell what a body has that its own version does not know, before the version is refused. ApiError 400."""
        found = self._registries.table.by_kind(body["apiVersion"], info.kind)
        type_name = info.type_name if found is None else found.type_name
        self.field_validation(ctx, type_name, body["apiVersion"].rpartition("/")[2], body)

    def field_validation(
        self, ctx: Context, type_name: str, version: str, body: Any, younger: Sequence[str] = ()
    ) -> None:
        """Fields of a body that are unknown or stand twice: refused, said in a warning or ignored.

        `younger` are places of fields that the release of the server does not know yet.
        """
        level = ctx.request.query.get("fieldValidation") or "Warn"
        if level == "Ignore":
            return
        issues = [*ctx.request.body_issues, *strict_issues(type_name, body)]
        issues += [f'unknown field "{place}"' for place in younger]
        if not issues:
            return
        if level == "Strict":
            kind = type_name.rpartition(".")[2]
            raise status.bad_request(
                f'{kind} in version "{version}" cannot be handled as a {kind}: strict decoding '
                f"error: {', '.join(issues)}"
            )
        for issue in issues:
            for line in issue.removeprefix("yaml: unmarshal errors:\n").split("\n"):
                ctx.warn(line.strip())

    def typed(
        self, ctx: Context, group: str, type_name: str, body: Any, versions: tuple[str, ...] = ()
    ) -> Tree:
        """Return an object of a type that no resource stores, as Eviction or Scale, as a canonical tree. ApiError 400.

        Args:
            ctx: of the request.
            group: of the kind.
            type_name: ends in version and kind, as `io.k8s.api.core.v1.Binding`.
            body: the object as it was written.
            versions: apiVersions that are accepted besides.
        """
        version, kind = type_name.split(".")[-2:]
        request = ctx.request
        if isinstance(body, dict):
            named = _last_named(body)
            known = conversion.KindName(group, version, kind)
            accepted = (known.api_version, *versions)
            if named.get("kind") != kind or named.get("apiVersion") not in accepted:
                conversion.check_foreign_kind(self._registries.table, known, named)
        tree = conversion.read_typed(type_name, body)
        if request.path or "fieldValidation" in request.query:
            self.field_validation(ctx, type_name, version, body)
        return tree

    def posted(
        self, ctx: Context, group: str, type_name: str, versions: tuple[str, ...] = ()
    ) -> Tree:
        """Return the body of a subresource that is created, checked like an object; see `typed`. ApiError 400."""
        tree = self.typed(ctx, group, type_name, ctx.request.body, versions)
        meta = tree.get("metadata") or {}
        namespace = meta.get("namespace", "")
        if namespace and namespace != ctx.request.namespace:
            raise _namespace_mismatch()
        kept = unique_owners(ctx, meta)
        return tree if kept is meta else {**tree, "metadata": kept}

    def missing(self, ctx: Context) -> Wanted | None:
        """Return the object to fetch before `new_object` may be called."""
        return self._admission.missing(ctx)

    def fetch(self, ctx: Context, wanted: Wanted) -> Steps[None]:
        """Read from the store what a creation needs and the lookup does not know."""
        return self._admission.fetch(ctx, wanted)

    def new_object(self, ctx: Context, body: Any, *, tracked: bool = False) -> Tree:
        """A body as an object to create: wiped, placed in its namespace, admitted."""
        tree = self.read(ctx, body)
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
        admitted = self._admission.mutate(ctx, tree, None)
        shared = SHARED.get(ctx.info.type_name)
        if shared is None:
            return admitted
        spec = shared.admitted(tree["spec"], admitted["spec"])
        return admitted if spec is admitted["spec"] else {**admitted, "spec": spec}

    def check_identity(self, ctx: Context, tree: Tree) -> Tree:
        """Name and namespace of the body against those of the URL, and owners without repetitions."""
        tree = identified(ctx, tree)
        meta = tree["metadata"]
        kept = unique_owners(ctx, meta)
        return tree if kept is meta else {**tree, "metadata": kept}


_OTHER_VERSION = "the API version in the data"


def identified(ctx: Context, tree: Tree) -> Tree:
    """Return the object in the namespace of the URL. ApiError 400 for another namespace or name.

    Upstream: apiserver handlers (patch.go, update.go), which compare the namespace before the name.
    """
    request = ctx.request
    meta = tree.get("metadata") or {}
    namespace = meta.get("namespace", "")
    if ctx.info.namespaced:
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
            f"the name of the object ({name}) does not match the name on the URL ({request.name})"
        )
    return tree if meta is tree.get("metadata") else {**tree, "metadata": meta}


def admitted_owners(ctx: Context, tree: Tree) -> Tree:
    """Return a patched object without repeated owners, which patches have until admission is through."""
    meta = tree["metadata"]
    kept = unique_owners(ctx, meta, " after mutating admission happens")
    return tree if kept is meta else {**tree, "metadata": kept}


def _namespace_mismatch() -> status.ApiError:
    return status.bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def unique_owners(ctx: Context, meta: Tree, when: str = "") -> Tree:
    """Owner references without exact repetitions, with a warning if there were any; `when` ends its first clause."""
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return meta
    kept: list[Tree] = []
    repeated: list[str] = []
    seen = Seen()
    for owner in owners:
        if seen.again(owner):
            repeated.append(owner.get("uid", ""))
        else:
            kept.append(owner)
    if len(kept) == len(owners):
        return meta
    ctx.warn(
        f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references "
        f"in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(dict.fromkeys(repeated))}"
    )
    return {**meta, "ownerReferences": kept}


def check_kind(table: ResourceTable, info: ResourceInfo, body: Any, *, exact: bool = False) -> Tree:
    """A body whose kind and version fit the resource; `exact`: under these names only. ApiError 400."""
    if not isinstance(body, dict):
        raise status.bad_request(
            f"the object provided is unrecognized (must be of type {info.kind}): couldn't get "
            "version/kind; json parse error: unexpected end of JSON input (<empty>)"
        )
    named = body if exact else _last_named(body)
    if named is not body:
        conversion.check_foreign_kind(table, info, named)
    api_version, kind = body.get("apiVersion"), body.get("kind")
    if api_version == info.api_version and kind == info.kind:
        return body
    return conversion.check_foreign_kind(table, info, body)


def _last_named(body: Tree) -> Tree:
    """The body by the last keys that say its kind, whatever their case: so upstream learns it."""
    shape = tuple(body)
    if shape in _plain.known:
        return body
    found: Tree = {}
    plain = len(shape) <= _FEW_KEYS
    for key, value in body.items():
        if len(key) not in _KIND_LENGTHS:
            plain = plain and len(key) <= _SHORT_KEY
            continue
        name = _KIND_KEYS.get(key.lower())
        if name is None:
            continue
        plain = plain and key == name
        if value or not (value is None or isinstance(value, str)):
            found[name] = value
    if plain:
        _plain.keep(shape, None)
        return body
    if all(body.get(name) == value for name, value in found.items()):
        return body
    return {**body, **found}


_KIND_KEYS = {"apiversion": "apiVersion", "kind": "kind"}
_KIND_LENGTHS = frozenset(map(len, _KIND_KEYS))
"""The lengths of strings that can become one of these keys in lower case."""
_FEW_KEYS, _SHORT_KEY, _SHAPES = 32, 64, 256
_plain: Memory[tuple[str, ...], None] = Memory("shapes of bodies", _SHAPES)
"""Keys of bodies that have their kind under no other name: few and short ones; at this number all are dropped."""
