"""Creating, reading, changing and deleting objects of one resource.

The algorithms are upstream's generic registry (apiserver pkg/registry/generic/registry/store.go,
pkg/registry/rest) over its storage interface (pkg/storage/etcd3/store.go): an object is read, then
admitted and validated, then written if it was not written meanwhile, else all of it again with the
newer one. Each of these is an operation of its own, so others may come in between.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

from attrs import frozen

from controlplane.api.object import Object
from controlplane.api.times import SECOND, format_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.kinds.metadata import (
    validate_meta_update,
)
from controlplane.apiserver.kinds.strategy import Context, Strategy
from controlplane.apiserver.requests.admission.chain import Admission
from controlplane.apiserver.requests.admission.quota import charge
from controlplane.apiserver.requests.authorization import escalation
from controlplane.apiserver.requests.authorization.access import Access
from controlplane.apiserver.requests.create_errors import create_errors
from controlplane.apiserver.requests.deleting import (
    before_delete,
    finalizers_for,
    without_grace,
)
from controlplane.apiserver.requests.key_names import check_key_name
from controlplane.apiserver.requests.listing import parse_version
from controlplane.apiserver.schema import status
from controlplane.apiserver.schema.field_errors import FieldError
from controlplane.apiserver.schema.field_order import in_order, sorted_keys
from controlplane.apiserver.schema.gated_fields import without_gated
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.storage.transactions import (
    UNVERSIONED,
    Delete,
    Done,
    Found,
    Get,
    Items,
    Live,
    Put,
    Range,
    Steps,
    Transaction,
    Unchanged,
)

__all__ = ["Registry", "Services", "with_version"]

Transform = Callable[[Tree], Tree]

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_ATTEMPTS = 8


def with_version(tree: Tree, version: str) -> Tree:
    """The tree with that resource version."""
    meta = tree["metadata"]
    if meta.get("resourceVersion") == version:
        return tree
    return {**tree, "metadata": {**meta, "resourceVersion": version}}


def _as_of_release(ctx: Context, info: ResourceInfo, tree: Tree, old: Tree | None) -> Tree:
    """The tree without the fields that a server of an earlier release has switched off."""
    if not ctx.earlier or info.custom is not None:
        return tree
    return without_gated(info.type_name, tree, old, ctx.earlier, ctx.gates)


_Attempt = tuple[tuple[Object, bool] | None, Object | None]


def _attempt(done: Done, *, gone: bool) -> _Attempt:
    """Return the result of a write of a deletion."""
    written = done.objects[0]
    if not done.made:
        return None, written
    assert written is not None
    return (written, gone), None


@frozen
class Services:
    """The services that all registries of a server share: admission, authorization, and sources of uids and names."""

    admission: Admission
    access: Access
    uid: Callable[[], str]
    suffix: Callable[[], str]
    ordered: bool
    """Stored objects have their fields in the order of upstream's encoding."""
    keeps_successors: bool = False
    """An update that ends a deletion removes only the object that it has looked at (gate 77952)."""


class Registry:
    """The objects of one resource, whatever version they are asked in.

    Everything here works on canonical trees of the stored version; conversion and decoding happen
    in `bodies`. It keeps nothing: what is stored is asked for.
    """

    def __init__(
        self, info: ResourceInfo, rules: Callable[[], Strategy], services: Services
    ) -> None:
        self.info = info
        self.rules = rules
        self.prefix = info.storage_prefix
        self._services = services
        self._admission = services.admission
        self._access = services.access

    @cached_property
    def strategy(self) -> Strategy:
        """The rules of the kind, whose room is imported now if it was not yet."""
        return self.rules()

    def key(self, namespace: str, name: str) -> str:
        """The key of an object below the prefix. ApiError 400 without a name that can be in one."""
        if not name or name[0] == "." or "%" in name or "/" in name:
            check_key_name(name)
        return f"{namespace}/{name}" if self.info.namespaced else name

    def reading(self, namespace: str, name: str) -> Get:
        """Return the read of the stored object; its outcome is `Live` or None."""
        return Get(self.prefix, self.key(namespace, name))

    def find(self, namespace: str, name: str) -> Steps[Object | None]:
        """The stored object, or None."""
        found: Live | None = yield self.reading(namespace, name)
        return None if found is None else found.object

    def get(self, namespace: str, name: str, info: ResourceInfo | None = None) -> Steps[Object]:
        """The stored object; ApiError NotFound."""
        found: Live | None = yield self.reading(namespace, name)
        if found is None:
            raise status.not_found(info or self.info, name)
        return found.object

    # -- create ----------------------------------------------------------------------------------

    def create(self, ctx: Context, tree: Tree, at: str = "") -> Steps[Object]:
        """Store a new object. `tree` is canonical, defaulted and namespaced.

        `at`: the name in the path of an update that creates. The object is stored there, whatever name admission
        gives to it.
        """
        if self._admission.asks():
            return self._create_asked(ctx, tree, at)
        return self._create(ctx, tree, at)

    def _create_asked(self, ctx: Context, tree: Tree, at: str) -> Steps[Object]:
        """Store what webhooks make of a new object."""
        changed = yield from self._admission.ask_to_change(ctx, tree, None)
        return (yield from self._create(ctx, changed, at))

    def _create(self, ctx: Context, tree: Tree, at: str) -> Steps[Object]:
        if at:
            return self._create_named(ctx, tree, at)
        meta = tree["metadata"]
        if self.strategy.named_by_uid and not (meta.get("name") or meta.get("generateName")):
            tree = {**tree, "metadata": {**meta, "name": self._services.uid()}}
        if meta.get("name") or not meta.get("generateName"):
            return self._create_named(ctx, tree)
        return self._create_generated(ctx, tree)

    def _create_generated(self, ctx: Context, tree: Tree) -> Steps[Object]:
        info, meta = ctx.info, tree["metadata"]
        prefix = meta["generateName"][:58]
        for _ in range(_ATTEMPTS):
            name = prefix + self._services.suffix()
            named = {**tree, "metadata": {**meta, "name": name}}
            try:
                return (yield from self._create_named(ctx, named))
            except status.ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
        raise status.not_unique(status.already_exists(info, name))

    def _create_named(self, ctx: Context, given: Tree, at: str = "") -> Steps[Object]:
        """Prepare, validate and store; again from the start if another one allocated meanwhile."""
        info, strategy = ctx.info, self.strategy
        if self._access.enabled:
            escalation.check(self._access.policy, ctx, given, None)
        uid = self._services.uid()
        while True:
            meta = dict(given["metadata"])
            meta["uid"] = uid
            meta["creationTimestamp"] = format_time(ctx.now)
            version = meta.get("resourceVersion")
            if at and version:
                _check_parsed(version)
            unchanged = (yield from self._siblings(ctx)) if strategy.allocates else ()
            tree = strategy.begin_create(ctx, {**given, "metadata": meta})
            tree = strategy.prepare_create(ctx, _as_of_release(ctx, self.info, tree, None))
            meta = tree["metadata"]
            errors = create_errors(ctx, self.strategy, tree)
            if errors:
                raise status.invalid(info, meta.get("name", ""), errors)
            texts = strategy.warnings(ctx, tree, None)
            for text in texts:
                ctx.warn(text)
            if self._access.enabled and ctx.request.verb != "create":
                self._access.check_create(ctx.info, ctx.request)
            self._admission.validate(ctx, tree, None)
            if self._admission.asks():
                yield from self._admission.ask(ctx, tree, None)
            quotas = self._admission.quotas(ctx, None)
            if quotas:
                yield from charge(ctx, tree, None, quotas)
            name = meta["name"]
            if version and not at and not ctx.dry_run and _written_version(version):
                raise status.plain_error(
                    "resourceVersion should not be set on objects to be created"
                )
            key = self.key(meta.get("namespace", ""), at or name)
            if ctx.dry_run:
                found: Live | None = yield Get(self.prefix, key)
                if found is not None:
                    raise self._exists(ctx, found.object, given)
                rehearsed = yield from self._rehearse(ctx, key, tree, None)
                made = rehearsed.objects[0]
                assert made is not None
                return made
            done: Done = yield self._put(ctx, key, tree, None, unchanged)
            written = done.objects[0]
            if not done.made and written is None:
                continue
            assert written is not None
            if not done.made:
                raise self._exists(ctx, written, given)
            return written

    def _exists(self, ctx: Context, existing: Object, given: Tree) -> status.ApiError:
        failed = status.already_exists(ctx.info, existing.name)
        if given["metadata"].get("generateName"):
            failed = status.not_unique(failed)
        if existing.metadata.get("deletionTimestamp"):
            failed.message = f"object is being deleted: {failed.message}"
        return failed

    def _siblings(self, ctx: Context) -> Steps[Unchanged]:
        """Read what an allocation must avoid; what must hold when it is written."""
        items: Items = yield Range(self.prefix)
        ctx.siblings = items.items
        return ((self.prefix, items.revision),)

    def _unwritten(self, tree: Tree, old: Object | None) -> Object:
        """Return the answer of a dry run."""
        tree = self.strategy.finish(tree)
        if old is None and not tree["metadata"].get("resourceVersion", "-"):
            meta = {k: v for k, v in tree["metadata"].items() if k != "resourceVersion"}
            tree = {**tree, "metadata": meta}
        return Object(tree)

    def _rehearse(self, ctx: Context, key: str, tree: Tree, old: Object | None) -> Steps[Done]:
        """Return the answer of a dry run, by way of the storage version where a webhook converts to it."""
        made = self._unwritten(tree, old)
        if ctx.info.custom is None or ctx.info.custom.webhook is None:
            return Done(True, 0, (made,))
        put = Put(self.prefix, key, made.tree, old)
        done: Done = yield Transaction((), (put,), rehearsed=True)
        return done

    def _put(
        self,
        ctx: Context,
        key: str,
        tree: Tree,
        old: Object | None,
        unchanged: Unchanged,
    ) -> Transaction:
        """Return the write of an object in its stored form over `old`, which must still be there."""
        strategy = self.strategy
        tree = strategy.finish(tree)
        if self._services.ordered:
            tree = self._in_order(
                with_version(tree, UNVERSIONED), None if old is None else old.tree
            )
        ends = ctx.now + strategy.ttl_seconds * SECOND if strategy.ttl_seconds else 0
        expected = 0 if old is None else old.resource_version
        put = Put(self.prefix, key, tree, old, ends)
        return Transaction(((self.prefix, key, expected),), (put,), unchanged)

    def write(
        self,
        ctx: Context,
        key: str,
        tree: Tree,
        found: Object,
        unchanged: Unchanged = (),
    ) -> Steps[Done]:
        """Write over `found` unless it was written meanwhile; a dry run always succeeds."""
        if ctx.dry_run:
            return (yield from self._rehearse(ctx, key, tree, found))
        done: Done = yield self._put(ctx, key, tree, found, unchanged)
        return done

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
        create: Callable[[], Steps[Tree]] | None = None,
        uid: str = "",
        found: Live | None = None,
    ) -> Steps[tuple[Object, bool]]:
        """Replace an object by `transform(current tree)`; answers it and whether it is new.

        `uid` is a precondition from the body. `create` makes the tree of a missing object where
        the verb may create. `found` is the object if it was read already. Upstream: Store.Update
        and GuaranteedUpdate.
        """
        info, strategy = ctx.info, self.strategy
        key = self.key(namespace, name)
        if found is None:
            found = yield Get(self.prefix, key)
        while found is not None:
            obj = found.object
            if uid and uid != obj.uid:
                raise status.conflict(
                    info,
                    name,
                    self._storage_text(
                        namespace,
                        name,
                        f"UID in precondition: {uid}, UID in object meta: {obj.uid}",
                        dry_run=ctx.dry_run,
                    ),
                )
            old = obj.tree
            unchanged = (yield from self._siblings(ctx)) if strategy.allocates else ()
            new = transform(old)
            if self._admission.asks():
                new = yield from self._admission.ask_to_change(ctx, new, old)
            new = self._check_version(ctx, name, new, old)
            new = self._before_update(ctx, new, old, sub)
            if self._access.enabled:
                escalation.check(self._access.policy, ctx, new, old)
            self._admission.validate(ctx, new, old)
            if self._admission.asks():
                yield from self._admission.ask(ctx, new, old)
            quotas = self._admission.quotas(ctx, old)
            if quotas:
                yield from charge(ctx, new, old, quotas)
            if self.is_finished(old, new):
                if not self._services.keeps_successors:
                    yield from self._remove(ctx, key, obj, tolerant=True)
                    return Object(new), False
                # Proposed repair: remove what was looked at and nothing else, or begin again.
                removed = yield from self._removed_as_read(ctx, key, obj)
                if removed is None:
                    return Object(new), False
                found = Found(removed, rewritten=True)
                continue
            settled = found.rewritten or not self._settles(ctx, sub, old)
            if new == old and settled and not found.migrates:
                return obj, False
            done = yield from self.write(ctx, key, new, obj, unchanged)
            written = done.objects[0]
            if done.made:
                assert written is not None
                return written, False
            found = None if written is None else Found(written, rewritten=True)
        if create is None:
            raise status.not_found(info, name)
        if uid:
            text = f"UID in precondition: {uid}, UID in object meta: "
            text = self._storage_text(namespace, name, text, dry_run=ctx.dry_run)
            raise status.conflict(info, name, text)
        tree = yield from create()
        return (yield from self.create(ctx, tree, name)), True

    def change(
        self,
        ctx: Context,
        namespace: str,
        name: str,
        transform: Transform,
        *,
        sub: str | None = None,
    ) -> Steps[Object]:
        """Replace an object by `transform(current tree)` past admission, and past the strategy unless `sub` is given.

        ApiError NotFound; Invalid for an update of `sub` that the strategy refuses.
        """
        key = self.key(namespace, name)
        found: Live | None = yield Get(self.prefix, key)
        obj = None if found is None else found.object
        while obj is not None:
            new = transform(obj.tree)
            if new == obj.tree:
                return obj
            if sub is not None:
                new = self._before_update(ctx, new, obj.tree, sub)
            done = yield from self.write(ctx, key, new, obj)
            obj = done.objects[0]
            if done.made:
                assert obj is not None
                return obj
        raise status.not_found(self.info, name)

    def _storage_text(self, namespace: str, name: str, text: str, *, dry_run: bool = False) -> str:
        prefix = self.info.storage_prefix
        if dry_run:  # which asks before it gets as far as the storage that adds it
            prefix = prefix.removeprefix("/registry")
        key = prefix + self.key(namespace, name)
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
            if self.strategy.unconditional_update:
                return with_version(new, current)
            raise status.invalid_kind(
                ctx.info.group,
                ctx.info.resource,
                name,
                [
                    FieldError(
                        "FieldValueInvalid",
                        "metadata.resourceVersion",
                        0,
                        "must be specified for an update",
                    )
                ],
            )
        _check_parsed(version)
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
        new = _as_of_release(ctx, self.info, new, old)
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
        before, after = validate_meta_update(
            new["metadata"],
            was,
            strategy.name_rule,
            strategy.meta_checks(sub),
            namespaced=self.info.namespaced,
            standard_finalizers=strategy.standard_finalizers,
        )
        errors = before + check(ctx, new, old) + after
        if errors:
            raise status.invalid(ctx.info, was["name"], errors)
        if sub != "status":
            for text in strategy.warnings(ctx, new, old):
                ctx.warn(text)
        return new

    def is_finished(self, old: Tree, new: Tree) -> bool:
        """Return whether an update removes the last obstacle to an object's deletion."""
        return (
            "deletionTimestamp" in old["metadata"]
            and not new["metadata"].get("finalizers")
            and not old["metadata"].get("deletionGracePeriodSeconds")
            and self._finished(new)
        )

    def _settles(self, ctx: Context, sub: str, old: Tree) -> bool:
        """Return whether an unchanged first update is a write, because only then the stored form settles."""
        return ctx.request.verb in ("update", "patch") and self.strategy.settles_on_update(
            ctx, sub, old
        )

    def _finished(self, tree: Tree) -> bool:
        """Return whether an object under deletion without metadata finalizers may be removed."""
        spec = tree.get("spec")
        return not (
            self.info.resource == "namespaces"
            and not self.info.group
            and isinstance(spec, dict)
            and spec.get("finalizers")
        )

    # -- delete ----------------------------------------------------------------------------------

    def delete(
        self, ctx: Context, namespace: str, name: str, options: DeleteOptions
    ) -> Steps[tuple[Object, bool]]:
        """Delete or begin to delete; answers the object and whether it is gone."""
        key = self.key(namespace, name)
        read: Live | None = yield Get(self.prefix, key)
        if read is None:
            raise status.not_found(ctx.info, name)
        found: Object = read.object
        once = self._begin_namespace_deletion if self.strategy.deletes_in_steps else self._once
        grace = options.grace
        while True:
            options.grace = grace  # an attempt may change it
            ended, newer = yield from once(ctx, key, found, options)
            if ended is not None:
                return ended
            if newer is None:
                raise status.not_found(ctx.info, name)
            found = newer

    def _once(
        self, ctx: Context, key: str, found: Object, options: DeleteOptions
    ) -> Steps[_Attempt]:
        """Make one attempt to delete: return its result, or None and the object that was written meanwhile."""
        obj, graceful, pending = before_delete(self.strategy, self.info, ctx, found.tree, options)
        begun = self.strategy.begin_delete(ctx, found.tree)
        if begun is not None:
            done = yield from self.write(ctx, key, begun, found)
            return _attempt(done, gone=False)
        if pending:
            return (found, False), None
        meta = found.metadata
        finalizers = finalizers_for(self.strategy, meta, options)
        has_finalizers = bool(meta.get("finalizers"))
        changed = finalizers != meta.get("finalizers", [])
        self._admission.validate_delete(ctx, found)
        if self._admission.asks():
            yield from self._admission.ask(ctx, None, found.tree)
        if graceful or has_finalizers or changed:
            marked = without_grace(ctx, obj, graceful, finalizers)
            if not graceful and not finalizers:
                return ((yield from self._remove(ctx, key, found, options)), True), None
            written = found
            if marked != found.tree:
                done = yield from self.write(ctx, key, marked, found)
                if not done.made:
                    return None, done.objects[0]
                assert done.objects[0] is not None
                written = done.objects[0]
            if finalizers or marked["metadata"].get("deletionGracePeriodSeconds"):
                return (written, False), None
            # An update may remove the marked object first, which is as good (upstream: issue 19403).
            gone = yield from self._remove(ctx, key, written, options, tolerant=True)
            return (gone, True), None
        return ((yield from self._remove(ctx, key, found, options)), True), None

    def _begin_namespace_deletion(
        self, ctx: Context, key: str, found: Object, options: DeleteOptions
    ) -> Steps[_Attempt]:
        """Mark a namespace as terminating; it goes when its finalizers are gone."""
        self._admission.validate_delete(ctx, found)
        if self._admission.asks():
            yield from self._admission.ask(ctx, None, found.tree)
        self._check_preconditions(ctx, found, options)
        spec = found.tree.get("spec") or {}
        meta = found.metadata
        if "deletionTimestamp" not in meta:
            marked = {**meta, "deletionTimestamp": format_time(ctx.now)}
            finalizers = finalizers_for(self.strategy, meta, options)
            if finalizers:
                marked["finalizers"] = finalizers
            else:
                marked.pop("finalizers", None)
            state = {**(found.tree.get("status") or {}), "phase": "Terminating"}
            tree = {**found.tree, "metadata": marked, "status": state}
            done = yield from self.write(ctx, key, tree, found)
            if not done.made:
                return None, done.objects[0]
            assert done.objects[0] is not None
            found = done.objects[0]
            if spec.get("finalizers") or finalizers:
                return (found, False), None
        elif spec.get("finalizers") or meta.get("finalizers"):
            return (found, False), None
        return ((yield from self._remove(ctx, key, found, options)), True), None

    def _check_preconditions(self, ctx: Context, found: Object, options: DeleteOptions) -> None:
        for wanted, current, text in (
            (options.uid, found.uid, "UID"),
            (options.version, found.metadata["resourceVersion"], "ResourceVersion"),
        ):
            if wanted is not None and wanted != current:
                raise status.conflict(
                    ctx.info,
                    found.name,
                    (
                        f"Precondition failed: {text} in precondition: {wanted}, {text} in object "
                        f"meta: {current}"
                    ),
                )

    def _removed_as_read(self, ctx: Context, key: str, read: Object) -> Steps[Object | None]:
        """Remove an object if it still is as it was read; return the newer one if it is not, None once it is gone."""
        if ctx.dry_run:
            return None
        expected = ((self.prefix, key, read.resource_version),)
        done: Done = yield Transaction(expected, (Delete(self.prefix, key),))
        if not done.made:
            return done.objects[0]
        self.strategy.after_delete(ctx, read.tree)
        return None

    def _remove(
        self,
        ctx: Context,
        key: str,
        found: Object,
        options: DeleteOptions | None = None,
        *,
        tolerant: bool = False,
    ) -> Steps[Object]:
        """Remove the key, however often it is written meanwhile, as far as the preconditions hold.

        Finalizers are not looked at again, nor without preconditions the uid: whatever has the key by then goes, as
        upstream has it (etcd3 store.conditionalDelete). `tolerant`: that the key is gone already is no error.
        """
        if ctx.dry_run:
            return found
        while True:
            expected = ((self.prefix, key, found.resource_version),)
            done: Done = yield Transaction(expected, (Delete(self.prefix, key),))
            if done.made:
                break
            newer = done.objects[0]
            if newer is None:
                if tolerant:
                    return found
                raise status.not_found(ctx.info, found.name)
            found = newer
            if options is not None:
                self._check_preconditions(ctx, found, options)
        self.strategy.after_delete(ctx, found.tree)
        return Object(with_version(found.tree, str(done.revision)))


def _check_parsed(version: str) -> None:
    """500 for a resourceVersion that is no number, as upstream answers what its storage cannot read."""
    try:
        parse_version(version)
    except ValueError as error:
        raise status.plain_error(str(error)) from None


def _written_version(text: str) -> int:
    """The version that an object to create names; 0 where the text is none, which upstream lets pass."""
    try:
        return parse_version(text)
    except ValueError:
        return 0
