"""The rules of a kind behind one interface; the defaults here fit kinds without rules.

Trees are immutable by convention: a hook that changes something returns a new tree that shares the
unchanged parts, and returns the given tree when there is nothing to change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from attrs import define, field, frozen

from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.deletion import DeleteOptions
from controlplane.apiserver.schema.field_errors import FieldError
from controlplane.apiserver.schema.resources import ResourceInfo

__all__ = ["Context", "Lookup", "Strategy", "kept_meta", "with_status", "without"]


class Lookup(Protocol):
    """Objects of built-in kinds as the server knows them, for hooks that look beyond their own object.

    What it says may be older than what is stored. Resources go by group and name.
    """

    def get(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """One object, or None."""

    def all(self, group: str, resource: str) -> Iterable[Object]:
        """All objects of a resource."""

    def within(self, group: str, resource: str, namespace: str) -> list[Object]:
        """The objects of a namespace, by name."""

    def read_within(self, info: ResourceInfo, namespace: str) -> list[Object]:
        """The objects of any resource in a namespace ("" for all), custom ones too, by name."""

    def info(self, group: str, resource: str) -> ResourceInfo:
        """The resource itself, in the version that is stored."""


@define(eq=False)
class Context:
    """The information that a hook may need besides the objects.

    `rules` returns the strategy, which is imported with the first request that needs it: a list does not.
    `siblings` are the keys and objects of the same resource as they are stored, for kinds that
    allocate (`Strategy.allocates`), `fetched` the objects read from the store because `lookup` did not
    have them. `cursors` are the server's last allocations. `suffix` makes the end of a generated name.
    `audit` are the notes of admission for the
    audit log. `reinvocation` is the state of admission between its two rounds. `admitted_as` converts a
    stored tree to the form that admission policies see, where that is another kind. `document` is the
    object as it was written: of a patched one the patch's result, before it was read. `gates` are the
    feature gates of the server that are on although they are off by default. `earlier` is the release of
    the server, "" for the latest one.
    """

    info: ResourceInfo
    request: Request
    now: int
    rules: Callable[[], Strategy]
    lookup: Lookup
    suffix: Callable[[], str]
    cursors: dict[str, int]
    track_fields: bool = False
    dry_run: bool = False
    warnings: list[str] | None = None
    warned: dict[str, None] | None = None
    siblings: tuple[tuple[str, Object], ...] = ()
    fetched: dict[tuple[str, str, str, str], Object] | None = None
    audit: dict[str, str] | None = None
    admitted_as: Callable[[Tree], Tree] | None = None
    document: Any = None
    reinvocation: Any = None
    gates: frozenset[str] = frozenset()
    earlier: str = ""

    def written(self, *path: str) -> Any:
        """A part of the document, in which a list without items is not yet the same as none."""
        found = self.document
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def find(self, group: str, resource: str, namespace: str, name: str) -> Object | None:
        """An object that was fetched for this request, else what the lookup says."""
        if self.fetched is not None:
            found = self.fetched.get((group, resource, namespace, name))
            if found is not None:
                return found
        return self.lookup.get(group, resource, namespace, name)

    def warn(self, text: str) -> None:
        """Add a warning to the answer; the same text only once."""
        if self.warnings is None:
            self.warnings, self.warned = [], {}
        assert self.warned is not None
        if text not in self.warned:
            self.warned[text] = None
            self.warnings.append(text)

    def annotate(self, key: str, value: str) -> None:
        """Add a note for the audit log; the first one of a key stays."""
        if self.audit is None:
            self.audit = {}
        self.audit.setdefault(key, value)


def without(tree: Tree, key: str) -> Tree:
    """The tree less one key."""
    if key not in tree:
        return tree
    return {name: value for name, value in tree.items() if name != key}


def without_labels(meta: Tree) -> Tree:
    """The metadata of a template, whose labels are not kept when there are none."""
    return meta if meta.get("labels", True) else without(meta, "labels")


def with_status(new: Tree, old: Tree, key: str = "status") -> Tree:
    """The new tree with one part taken from the old one."""
    if key in old:
        if new.get(key) is old[key]:
            return new
        return {**new, key: old[key]}
    return without(new, key)


def same(new: Tree, old: Tree, key: str) -> bool:
    """Return whether a part of two trees is equal; identical parts are not compared."""
    a, b = new.get(key), old.get(key)
    return a is b or a == b


_KEPT_META = (
    "deletionTimestamp",
    "generation",
    "selfLink",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)
"""The fields that ResetObjectMetaForStatus of apimachinery takes from the stored object."""


def kept_meta(new: Tree, old: Tree) -> Tree:
    """The metadata of an update that changes a part of the object alone."""
    for key in _KEPT_META:
        new = with_status(new, old, key)
    return new


@frozen(kw_only=True, eq=False)
class Strategy:
    """Rules of one kind: a value made of settings and functions; a kind with more to say overrides a hook.

    `default` fills in what upstream's defaulting functions fill in. `rule`, `update_rule` and `status_rule`
    return the errors of a new object, of an update (by default those of a new object) and of a status
    update, metadata apart. `warn` returns the warnings for a created or updated object.

    `create_on_update`: PUT creates what is missing. `unconditional_update`: PUT without a version
    is allowed. `returns_deleted`: DELETE answers the object rather than a Status.
    `orphan_by_default`: dependents of a deleted object stay unless asked otherwise.
    `generation`: the object counts changes of its spec. `status_keeps_meta`: a status update leaves the
    metadata as it is, except the managed fields. `meta_steps`: the checks of metadata in the kind's own
    update rules, see `metadata.validate_meta_update`. `standard_finalizers`: finalizers must be standard
    ones or qualified. `allocates`: the hooks begin_create and begin_update allocate values that are unique
    among the kind's objects. `timed_defaults`: some defaults are times.
    """

    default: Callable[[Tree], Tree] | None = None
    rule: Callable[[Tree], list[FieldError]] | None = None
    update_rule: Callable[[Tree, Tree], list[FieldError]] | None = None
    status_rule: Callable[[Tree, Tree], list[FieldError]] | None = None
    warn: Callable[[Tree], list[str]] | None = None
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    orphan_by_default: bool = False
    generation: bool = False
    has_status: bool = True
    empty_status: Tree = field(factory=dict)
    graceful: bool = False
    ttl_seconds: int = 0
    name_rule: Callable[[str], names.Problems] = names.dns_subdomain
    checks_prefix: bool = True
    """The rule of names holds for generateName, too. Upstream: not with ValidateObjectMetaWithOpts."""
    named_by_uid: bool = False
    """A new object without a name gets a UUID as its name."""
    unsupported_gc: bool = False
    status_keeps_labels: bool = False
    status_keeps_meta: bool = False
    meta_steps: str = "U"
    meta_apart: bool = False
    """The rules of new objects leave metadata to the generic ones, which come after them if they find nothing."""
    standard_finalizers: bool = True
    deletes_in_steps: bool = False
    allocates: bool = False
    timed_defaults: bool = False

    def timed(self, ctx: Context, tree: Tree) -> Tree:
        """Fill in what upstream's defaulting takes from the clock, where `timed_defaults` says that there is any."""
        return tree

    def converted(self, tree: Tree) -> Tree:
        """The object as field managers see it: with what only upstream's conversion writes."""
        return tree

    def settles_on_update(self, ctx: Context, sub: str, old: Tree) -> bool:
        """Return whether the first PUT or PATCH after creation is a write even if it changes nothing.

        Seen in recordings: what creation stores is not what an update of the same object stores.
        """
        return False

    def defaults(self, tree: Tree, old: Tree | None) -> Tree:
        """Fill in what upstream's defaulting functions fill in; `old` parts need no second look."""
        return tree if self.default is None else self.default(tree)

    def name_rule_of(self, tree: Tree) -> Callable[[str], names.Problems]:
        """Return the rule for the name of a new object."""
        return self.name_rule

    def prepare_create(self, ctx: Context, tree: Tree) -> Tree:
        """Clear what clients may not set, set what the server sets."""
        if self.has_status and "status" in tree:
            tree = self.reset_status(tree)
        if self.generation:
            tree = {**tree, "metadata": {**tree["metadata"], "generation": 1}}
        return tree

    def reset_status(self, tree: Tree) -> Tree:
        """The tree with the status of a new object."""
        if tree["status"] == self.empty_status:
            return tree
        return {**tree, "status": self.empty_status}

    def permits(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object that come before those of its metadata."""
        return []

    def validate(self, ctx: Context, tree: Tree) -> list[FieldError]:
        """Return the errors of a new object, metadata apart."""
        return [] if self.rule is None else self.rule(tree)

    def prepare_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """The same for an update of the main resource."""
        if self.has_status:
            new = with_status(new, old)
        if self.generation and self.spec_changed(new, old):
            meta = new["metadata"]
            generation = old["metadata"].get("generation", 0) + 1
            new = {**new, "metadata": {**meta, "generation": generation}}
        return new

    def spec_changed(self, new: Tree, old: Tree) -> bool:
        """Return whether an update increments the generation."""
        return not same(new, old, "spec")

    def validate_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of an update, metadata apart."""
        if self.update_rule is not None:
            return self.update_rule(new, old)
        return self.validate(ctx, new)

    def prepare_status_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """The same for an update of the status subresource."""
        for key in old:
            if key not in ("status", "metadata"):
                new = with_status(new, old, key)
        if self.status_keeps_labels:
            meta = with_status(new["metadata"], old["metadata"], "labels")
            new = {**new, "metadata": meta}
        if self.status_keeps_meta:
            new = {**new, "metadata": kept_meta(new["metadata"], old["metadata"])}
        return new

    def validate_status_update(self, ctx: Context, new: Tree, old: Tree) -> list[FieldError]:
        """Return the errors of a status update, metadata apart."""
        return [] if self.status_rule is None else self.status_rule(new, old)

    def prepare_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> Tree:
        """The same for an update of another subresource."""
        return new

    def validate_sub_update(self, ctx: Context, new: Tree, old: Tree, sub: str) -> list[FieldError]:
        """Return the errors of an update of another subresource, metadata apart."""
        return []

    def warnings(self, ctx: Context, tree: Tree, old: Tree | None) -> list[str]:
        """Warnings for a create or update."""
        return [] if self.warn is None else self.warn(tree)

    def finish(self, tree: Tree) -> Tree:
        """Return the object as it is stored, without the parts that are left out."""
        return tree

    def begin_create(self, ctx: Context, tree: Tree) -> Tree:
        """Allocate what the object needs (addresses, ports), before anything else."""
        return tree

    def begin_update(self, ctx: Context, new: Tree, old: Tree) -> Tree:
        """The same for an update."""
        return new

    def begin_delete(self, ctx: Context, tree: Tree) -> Tree | None:
        """Return the object that a deletion with a grace period stores; None for the default."""
        return None

    def after_delete(self, ctx: Context, tree: Tree) -> None:
        """Give back what the object held."""

    def meta_checks(self, sub: str) -> str:
        """Return the checks of changed metadata in the update rules of the kind or its subresource."""
        if sub == "resize":
            return ""  # its rules look at the metadata themselves
        return "U" if sub and self.meta_steps else self.meta_steps

    def creates_on_update(self, sub: str) -> bool:
        """Return whether an apply, or a PUT where the kind permits it, makes an object that is not there.

        The status of a kind that PUT creates has the rules of the kind, creation included.
        Upstream: AllowCreateOnUpdate, which a status strategy inherits.
        """
        return not sub or (sub == "status" and self.create_on_update)

    def reset_fields(self, sub: str) -> tuple[tuple[str, ...], ...]:
        """Field paths that a write through the endpoint cannot set."""
        if sub == "status":
            return (("f:metadata",), ("f:spec",)) if self.status_keeps_meta else (("f:spec",),)
        return (("f:status",),) if self.has_status else ()

    def warn_delete(self, ctx: Context, options: DeleteOptions) -> None:
        """Warnings for a deletion with these options."""

    def grace_period(self, tree: Tree, wanted: int | None) -> int:
        """The grace period in seconds of a deletion, for kinds with graceful deletion."""
        return 0
