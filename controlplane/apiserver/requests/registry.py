"""Creating, reading, changing and deleting objects of one resource.

The algorithms are upstream's generic registry (apiserver pkg/registry/generic/registry/store.go
and pkg/registry/rest). One request runs to its end before the next begins, so the compare-and-swap
loops of upstream run once here: the object read is the object replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from controlplane.api.object import Object
from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.apiserver.kinds.metadata import (
    finalizer_errors,
    validate_meta,
    validate_meta_update,
    wiped,
)
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.requests.authorization import escalation
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import FieldError
from controlplane.apiserver.schema.field_order import in_order, sorted_keys
from controlplane.apiserver.schema.resources import ResourceInfo

if TYPE_CHECKING:
    from controlplane.apiserver.requests.server import ApiServer

__all__ = ["DeleteOptions", "Registry"]

Tree = dict[str, Any]
Transform = Callable[[Tree], Tree]

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_ORPHAN = "orphan"
_FOREGROUND = "foregroundDeletion"
_ATTEMPTS = 8


class DeleteOptions:
    """The parsed options of a deletion; None and "" mean not given."""

    __slots__ = ("dry_run", "grace", "orphan", "policy", "uid", "version")

    def __init__(
        self,
        grace: int | None = None,
        uid: str | None = None,
        version: str | None = None,
        policy: str = "",
        orphan: bool | None = None,
        *,
        dry_run: bool = False,
    ) -> None:
        self.grace = grace
        self.uid = uid
        self.version = version
        self.policy = policy
        self.orphan = orphan
        self.dry_run = dry_run

    def copy(self) -> DeleteOptions:
        """An independent copy: a deletion may change its options."""
        return DeleteOptions(self.grace, self.uid, self.version, self.policy, self.orphan,
                             dry_run=self.dry_run)  # fmt: skip


def with_version(tree: Tree, version: str) -> Tree:
    """The tree with that resource version."""
    meta = tree["metadata"]
    if meta.get("resourceVersion") == version:
        return tree
    return {**tree, "metadata": {**meta, "resourceVersion": version}}


class Registry:
    """The objects of one resource, whatever version they are asked in.

    Everything here works on canonical trees of the stored version; conversion and decoding happen
    in the server.
    """

    def __init__(self, server: ApiServer, info: ResourceInfo, strategy: Strategy) -> None:
        self.server = server
        self.info = info
        self.strategy = strategy
        self.space = server.store.keyspace(info.storage_prefix)

    def key(self, namespace: str, name: str) -> str:
        """The key of an object inside the keyspace."""
        return f"{namespace}/{name}" if self.info.namespaced else name

    def find(self, namespace: str, name: str) -> Object | None:
        """The live object, or None."""
        entry = self.space.entries.get(self.key(namespace, name))
        return entry.object if entry is not None else None

    def get(self, namespace: str, name: str, info: ResourceInfo | None = None) -> Object:
        """The live object; ApiError NotFound."""
        found = self.find(namespace, name)
        if found is None:
            raise status.not_found(info or self.info, name)
        return found

    # -- create ----------------------------------------------------------------------------------

    def create(self, ctx: Context, tree: Tree) -> Object:
        """Store a new object. `tree` is canonical, defaulted and namespaced."""
        info = ctx.info
        meta = tree["metadata"]
        if meta.get("name") or not meta.get("generateName"):
            return self._create_named(ctx, tree)
        prefix = meta["generateName"][:58]
        for _ in range(_ATTEMPTS):
            name = prefix + self.server.suffix()
            named = {**tree, "metadata": {**meta, "name": name}}
            try:
                return self._create_named(ctx, named)
            except status.ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
        failed = status.already_exists(info, name)
        failed.message += ", the server was not able to generate a unique name for the object"
        assert failed.details is not None
        failed.details["retryAfterSeconds"] = 1
        raise failed

    def _create_named(self, ctx: Context, tree: Tree) -> Object:
        info, strategy = ctx.info, self.strategy
        if self.server.authorize:
            escalation.check(ctx, tree, None)
        meta = dict(tree["metadata"])
        meta["uid"] = self.server.uid()
        meta["creationTimestamp"] = format_time(ctx.now)
        version = meta.get("resourceVersion")
        tree = strategy.begin_create(ctx, {**tree, "metadata": meta})
        tree = strategy.prepare_create(ctx, tree)
        meta = tree["metadata"]
        errors = validate_meta(meta, strategy.name_rule, namespaced=info.namespaced)
        if strategy.meta_checked_twice:
            errors += finalizer_errors(meta)
        errors += strategy.validate(ctx, tree)
        if errors:
            raise status.invalid(info, meta.get("name", ""), errors)
        texts = strategy.warnings(ctx, tree, None)
        for text in texts:
            ctx.warn(text)
        self.server.admission.validate(ctx, tree, None)
        name = meta["name"]
        if version and version.isdigit() and int(version):
            raise status.plain_error("resourceVersion should not be set on objects to be created")
        key = self.key(meta.get("namespace", ""), name)
        existing = self.space.entries.get(key)
        if existing is not None:
            failed = status.already_exists(info, name)
            if existing.object.metadata.get("deletionTimestamp"):
                failed.message = f"object is being deleted: {failed.message}"
            raise failed
        return self._write(ctx, key, tree, None)

    def _write(self, ctx: Context, key: str, tree: Tree, old: Object | None) -> Object:
        if ctx.dry_run:
            if old is None and "resourceVersion" in tree["metadata"]:
                meta = {k: v for k, v in tree["metadata"].items() if k != "resourceVersion"}
                tree = {**tree, "metadata": meta}
            return Object(tree)
        store = self.server.store
        tree = self.strategy.finish(tree)
        tree = with_version(tree, str(store.revision + 1))
        if self.server.track_fields:
            tree = self._in_order(tree, None if old is None else old.tree)
        obj = Object(tree, old)
        if self.strategy.ttl_seconds:
            deadline = ctx.now + self.strategy.ttl_seconds * SECOND
            store.expire_at(self.space, key, store.revision + 1, deadline)
        self.space.put(key, obj)
        return obj

    def _in_order(self, tree: Tree, old: Tree | None) -> Tree:
        """The object with its fields where upstream's encoding has them: clients print raw answers."""
        if self.info.custom is not None:
            ordered: Tree = sorted_keys(tree, old)
            return ordered
        return in_order(self.info.type_name, tree, old)

    # -- update ----------------------------------------------------------------------------------

    def update(
        self,
        ctx: Context,
        namespace: str,
        name: str,
        transform: Transform,
        *,
        sub: str = "",
        create: Callable[[], Tree] | None = None,
        uid: str = "",
    ) -> tuple[Object, bool]:
        """Replace an object by `transform(current tree)`; answers it and whether it is new.

        `uid` is a precondition from the body. `create` makes the tree of a missing object where
        the verb may create.
        """
        info = ctx.info
        found = self.find(namespace, name)
        if found is None:
            if create is None:
                raise status.not_found(info, name)
            if uid:
                raise status.conflict(info, name, (
                    f"uid mismatch: the provided object specified uid {uid}, and no existing "
                    "object was found"
                ))  # fmt: skip
            return self.create(ctx, create()), True
        if uid and uid != found.uid:
            raise status.conflict(info, name, self._storage_text(
                namespace, name, f"UID in precondition: {uid}, UID in object meta: {found.uid}"
            ))  # fmt: skip
        old = found.tree
        new = transform(old)
        new = self._check_version(ctx, name, new, old)
        new = self._before_update(ctx, new, old, sub)
        if self.server.authorize:
            escalation.check(ctx, new, old)
        self.server.admission.validate(ctx, new, old)
        return self.replace(ctx, new, found), False

    def _storage_text(self, namespace: str, name: str, text: str) -> str:
        key = self.info.storage_prefix + self.key(namespace, name)
        return (
            f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
            f"AdditionalErrorMsg: Precondition failed: {text}"
        )

    def _check_version(self, ctx: Context, name: str, new: Tree, old: Tree) -> Tree:
        version = new["metadata"].get("resourceVersion", "")
        current = old["metadata"]["resourceVersion"]
        if version == current:
            return new
        if version in {"", "0"}:
            if self.strategy.unconditional_update or ctx.request.verb == "patch":
                return with_version(new, current)
            raise status.invalid_kind(ctx.info.group, ctx.info.resource, name, [
                FieldError("FieldValueInvalid", "metadata.resourceVersion", 0,
                           "must be specified for an update")
            ])  # fmt: skip
        raise status.conflict(ctx.info, name, _MODIFIED)

    def _before_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> Tree:
        strategy = self.strategy
        meta, was = new["metadata"], old["metadata"]
        if meta is not was:
            fixed = dict(meta)
            for key in ("generation", "creationTimestamp"):
                if key in was:
                    fixed[key] = was[key]
                else:
                    fixed.pop(key, None)
            if "deletionTimestamp" in was:
                fixed["deletionTimestamp"] = was["deletionTimestamp"]
            if "deletionGracePeriodSeconds" in was:
                fixed.setdefault("deletionGracePeriodSeconds", was["deletionGracePeriodSeconds"])
            if not fixed.get("uid"):
                fixed["uid"] = was["uid"]
            fixed.pop("selfLink", None)
            if fixed != meta:
                new = {**new, "metadata": fixed}
        if sub == "status":
            new = strategy.prepare_status_update(ctx, new, old)
            check = strategy.validate_status_update
        elif sub:
            new = strategy.prepare_sub_update(ctx, new, old, sub)

            check = partial(strategy.validate_sub_update, sub=sub)
        else:
            new = strategy.begin_update(ctx, new, old)
            new = strategy.prepare_update(ctx, new, old)
            check = strategy.validate_update
        errors = validate_meta_update(new["metadata"], was)
        if errors and strategy.meta_checked_twice:
            errors += errors
        errors += check(ctx, new, old)
        if errors:
            raise status.invalid(ctx.info, was["name"], errors)
        for text in strategy.warnings(ctx, new, old):
            ctx.warn(text)
        return new

    def replace(self, ctx: Context, new: Tree, found: Object) -> Object:
        """Write `new` over `found`, unless nothing changed; finish a deletion that is due."""
        old = found.tree
        meta = new["metadata"]
        key = self.key(meta.get("namespace", ""), meta["name"])
        if (
            "deletionTimestamp" in old["metadata"]
            and not meta.get("finalizers")
            and not old["metadata"].get("deletionGracePeriodSeconds")
            and self._finished(new)
        ):
            if not ctx.dry_run:
                self._remove(ctx, key, found)
            return Object(new)
        if new == old and not self._settles(ctx, key):
            return found
        return self._write(ctx, key, new, found)

    def _settles(self, ctx: Context, key: str) -> bool:
        """Whether this is the unchanged first update of an object whose stored form only then settles."""
        if not self.strategy.settles_on_update or ctx.request.verb != "update":
            return False
        entry = self.space.entries.get(key)
        return entry is not None and entry.create_revision == entry.mod_revision

    def _finished(self, tree: Tree) -> bool:
        """Whether a deleting object without metadata finalizers may go."""
        spec = tree.get("spec")
        return not (
            self.info.resource == "namespaces" and not self.info.group
            and isinstance(spec, dict) and spec.get("finalizers")
        )  # fmt: skip

    # -- delete ----------------------------------------------------------------------------------

    def delete(
        self, ctx: Context, namespace: str, name: str, options: DeleteOptions
    ) -> tuple[Object, bool]:
        """Delete or begin to delete; answers the object and whether it is gone."""
        found = self.get(namespace, name, ctx.info)
        key = self.key(namespace, name)
        if self.strategy.deletes_in_steps:
            return self._begin_namespace_deletion(ctx, found, options)
        obj, graceful, pending = self._before_delete(ctx, found, options)
        begun = self.strategy.begin_delete(ctx, found.tree)
        if begun is not None:
            return self._write(ctx, key, begun, found), False
        if pending:
            return found, False
        meta = found.metadata
        finalizers = self._deletion_finalizers(meta, options)
        has_finalizers = bool(meta.get("finalizers"))
        changed = finalizers != meta.get("finalizers", [])
        if graceful or has_finalizers or changed:
            self.server.admission.validate_delete(ctx, found)
            marked = self._mark(ctx, obj, graceful, finalizers)
            if not graceful and not finalizers:
                return self._finish(ctx, key, found), True
            written = found
            if marked != found.tree:
                written = self._write(ctx, key, marked, found)
            if finalizers or marked["metadata"].get("deletionGracePeriodSeconds"):
                return written, False
            if ctx.dry_run:
                return written, True
            return self._finish(ctx, key, written), True
        self.server.admission.validate_delete(ctx, found)
        return self._finish(ctx, key, found), True

    def _begin_namespace_deletion(
        self, ctx: Context, found: Object, options: DeleteOptions
    ) -> tuple[Object, bool]:
        """Mark a namespace as terminating; it goes when its finalizers are gone."""
        self.server.admission.validate_delete(ctx, found)
        for wanted, current, text in (
            (options.uid, found.uid, "UID"),
            (options.version, found.metadata["resourceVersion"], "ResourceVersion"),
        ):
            if wanted is not None and wanted != current:
                raise status.conflict(ctx.info, found.name, (
                    f"Precondition failed: {text} in precondition: {wanted}, {text} in object "
                    f"meta: {current}"
                ))  # fmt: skip
        spec = found.tree.get("spec") or {}
        meta = found.metadata
        if "deletionTimestamp" not in meta:
            marked = {**meta, "deletionTimestamp": format_time(ctx.now)}
            finalizers = self._deletion_finalizers(meta, options)
            if finalizers:
                marked["finalizers"] = finalizers
            else:
                marked.pop("finalizers", None)
            state = {**(found.tree.get("status") or {}), "phase": "Terminating"}
            tree = {**found.tree, "metadata": marked, "status": state}
            found = self._write(ctx, self.key("", found.name), tree, found)
            if spec.get("finalizers") or finalizers:
                return found, False
        elif spec.get("finalizers") or meta.get("finalizers"):
            return found, False
        return self._finish(ctx, self.key("", found.name), found), True

    def _finish(self, ctx: Context, key: str, found: Object) -> Object:
        if ctx.dry_run:
            return found
        return self._remove(ctx, key, found)

    def _remove(self, ctx: Context, key: str, found: Object) -> Object:
        revision = self.space.delete(key)
        self.strategy.after_delete(ctx, found.tree)
        return Object(with_version(found.tree, str(revision)))

    def _mark(self, ctx: Context, obj: Tree, graceful: bool, finalizers: list[str]) -> Tree:
        meta = dict(obj["metadata"])
        if finalizers:
            meta["finalizers"] = finalizers
        else:
            meta.pop("finalizers", None)
        if not graceful and finalizers:
            now = format_time(ctx.now)
            before = meta.get("deletionTimestamp")
            if before is None:
                if meta.get("generation", 0) > 0:
                    meta["generation"] += 1
                meta["deletionTimestamp"] = now
            elif parse_time(before) > parse_time(now):
                meta["deletionTimestamp"] = now
            meta["deletionGracePeriodSeconds"] = 0
        return {**obj, "metadata": meta}

    def _before_delete(
        self, ctx: Context, found: Object, options: DeleteOptions
    ) -> tuple[Tree, bool, bool]:
        """Check preconditions and set deletion time and grace; answers (tree, graceful, pending)."""
        tree = found.tree
        meta = tree["metadata"]
        info = self.info
        if options.uid is not None and options.uid != found.uid:
            raise status.conflict(info, found.name, (
                f"the UID in the precondition ({options.uid}) does not match the UID in record "
                f"({found.uid}). The object might have been deleted and then recreated"
            ), shown=info.qualified_kind, kind=info.kind)  # fmt: skip
        version = meta["resourceVersion"]
        if options.version is not None and options.version != version:
            raise status.conflict(info, found.name, (
                f"the ResourceVersion in the precondition ({options.version}) does not match the "
                f"ResourceVersion in record ({version}). The object might have been modified"
            ), shown=info.qualified_kind, kind=info.kind)  # fmt: skip
        if options.grace is not None and options.grace < 0:
            options.grace = 1
        if not self.strategy.graceful:
            return tree, False, False
        if "deletionTimestamp" in meta:
            return self._shorten(ctx, tree, options)
        grace = self.strategy.grace_period(tree, options.grace)
        marked = dict(meta)
        marked["deletionTimestamp"] = format_time(ctx.now + grace * SECOND)
        marked["deletionGracePeriodSeconds"] = grace
        if meta.get("generation", 0) > 0:
            marked["generation"] = meta["generation"] + 1
        options.grace = grace
        return {**tree, "metadata": marked}, True, False

    def _shorten(self, ctx: Context, tree: Tree, options: DeleteOptions) -> tuple[Tree, bool, bool]:
        """A further deletion of a deleting object can only shorten its grace period."""
        meta = tree["metadata"]
        stored = meta.get("deletionGracePeriodSeconds")
        if not stored:
            return tree, False, False
        if options.grace is None:
            options.grace = stored
            return tree, False, True
        period = self.strategy.grace_period(tree, options.grace)
        if period >= stored:
            return tree, False, True
        ends = parse_time(meta["deletionTimestamp"]) - (stored - period) * SECOND
        if ends < ctx.now:
            ends = ctx.now
            if period:
                period = 1
        marked = dict(meta)
        marked["deletionTimestamp"] = format_time(ends)
        marked["deletionGracePeriodSeconds"] = period
        options.grace = period
        return {**tree, "metadata": marked}, True, False

    def _deletion_finalizers(self, meta: Tree, options: DeleteOptions) -> list[str]:
        """The finalizers with what the garbage collector's mode asks for."""
        had: list[str] = meta.get("finalizers", [])
        if self.strategy.unsupported_gc:
            return [name for name in had if name not in (_ORPHAN, _FOREGROUND)]
        orphan, foreground = False, False
        if options.orphan is not None:
            orphan = options.orphan
        elif options.policy:
            orphan = options.policy == "Orphan"
            foreground = options.policy == "Foreground"
        elif _ORPHAN in had:
            orphan = True
        elif _FOREGROUND in had:
            foreground = True
        else:
            orphan = self.strategy.orphan_by_default
        kept = [name for name in had if name not in (_ORPHAN, _FOREGROUND)]
        if orphan:
            kept.append(_ORPHAN)
        if foreground:
            kept.append(_FOREGROUND)
        return had if kept == had else kept


__all__ += ["with_version", "wiped"]
