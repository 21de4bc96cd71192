"""The graph of owners, as far as it has been observed. Upstream: pkg/controller/garbagecollector/graph_builder.go,
graph.go.

A node stands for an object by uid. An owner that was only referred to is a virtual node, at the
coordinates of the reference that made it, until the object itself is heard of or found absent.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from controlplane.api.meta import ObjectMeta, OwnerReference
    from controlplane.api.view import View

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
ABSENT_OWNERS = 500


class Coordinates(NamedTuple):
    """The object of an owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str


class Identity(NamedTuple):
    """An object: coordinates and namespace ("" where there is none, or none is known)."""

    coordinates: Coordinates
    namespace: str

    @property
    def uid(self) -> str:
        """The uid."""
        return self.coordinates.uid

    @property
    def rank(self) -> tuple[str, ...]:
        """The order in which other coordinates of an absent owner are tried."""
        found = self.coordinates
        return found.kind, found.api_version, self.namespace, found.name, found.uid

    def __str__(self) -> str:
        found = self.coordinates
        return (
            f"[{found.api_version}/{found.kind}, namespace: {self.namespace}, "
            f"name: {found.name}, uid: {found.uid}]"
        )


def coordinates(reference: OwnerReference) -> Coordinates:
    """The coordinates in a reference."""
    return Coordinates(reference.api_version, reference.kind, reference.name, reference.uid)


def identity_of(view: View) -> Identity:
    """The identity of an object that was heard of."""
    return Identity(Coordinates(view.api_version, view.kind, view.name, view.uid), view.namespace)


def being_deleted(meta: ObjectMeta) -> bool:
    """Return whether a deletion time is set."""
    return meta.deletion_timestamp is not None


@define(eq=False)
class Node:
    """An object in the graph. `serial` tells nodes apart that stand for one uid one after the other."""

    identity: Identity
    serial: int
    owners: Sequence[OwnerReference] = ()
    virtual: bool = False
    being_deleted: bool = False
    deleting_dependents: bool = False
    dependents: dict[int, Node] = field(factory=dict)

    @property
    def key(self) -> str:
        """Under which it stands in work queues."""
        return f"{self.identity.uid}#{self.serial}"

    def blocking_dependents(self) -> list[Node]:
        """The dependents for which deletion in the foreground waits."""
        return [
            dependent
            for dependent in self.dependents.values()
            if any(
                owner.uid == self.identity.uid and owner.block_owner_deletion
                for owner in dependent.owners
            )
        ]


class AbsentOwners:
    """Owners that were found not to exist: the 500 last used; by uid alone unless `by_coordinates`."""

    def __init__(self, *, by_coordinates: bool = True) -> None:
        self._found: OrderedDict[Identity | str, None] = OrderedDict()
        self._by_coordinates = by_coordinates

    def _key(self, owner: Identity) -> Identity | str:
        return owner if self._by_coordinates else owner.uid

    def add(self, owner: Identity) -> None:
        """Remember one."""
        key = self._key(owner)
        self._found[key] = None
        self._found.move_to_end(key)
        if len(self._found) > ABSENT_OWNERS:
            self._found.popitem(last=False)

    def __contains__(self, owner: Identity) -> bool:
        key = self._key(owner)
        if key not in self._found:
            return False
        self._found.move_to_end(key)
        return True


class Graph:
    """The graph, kept by one task; what has to be looked at is passed to the callbacks.

    `try_delete(node, backoff)` and `try_orphan(node)` ask for a node to be worked on;
    `report_namespace(node, owner_uid)` reports an owner that is looked for in the wrong namespace.
    Without `by_coordinates` a uid alone says which owner is meant (before 1.20, issue 65200).
    """

    def __init__(
        self,
        try_delete: Callable[[Node, bool], None],
        try_orphan: Callable[[Node], None],
        report_namespace: Callable[[Node, str], None],
        *,
        by_coordinates: bool = True,
    ) -> None:
        self.nodes: dict[str, Node] = {}
        self.absent = AbsentOwners(by_coordinates=by_coordinates)
        self._by_coordinates = by_coordinates
        self._try_delete = try_delete
        self._try_orphan = try_orphan
        self._report = report_namespace
        self._serial = 0

    def _made(self, identity: Identity, **more: object) -> Node:
        self._serial += 1
        node = Node(identity, self._serial)
        for name, value in more.items():
            setattr(node, name, value)
        self.nodes[identity.uid] = node
        return node

    def _clone(self, node: Node, identity: Identity) -> Node:
        return self._made(
            identity,
            owners=node.owners,
            virtual=node.virtual,
            being_deleted=node.being_deleted,
            deleting_dependents=node.deleting_dependents,
            dependents=dict(node.dependents),
        )

    # ------------------------------------------------------------------ what is heard

    def changed(self, old: ObjectMeta | None, view: View) -> None:
        """An object was heard of, or changed from `old`."""
        meta = view.metadata
        node = self._observed(view)
        if node is None:
            waiting = being_deleted(meta) and FOREGROUND in meta.finalizers
            node = self._made(
                identity_of(view),
                owners=meta.owner_references,
                being_deleted=being_deleted(meta),
                deleting_dependents=waiting,
            )
            self._join_owners(node, node.owners)
        else:
            self._references_changed(node, meta.owner_references)
            if being_deleted(meta):
                node.being_deleted = True
        self._transitions(old, meta, node)

    def deleted(self, view: View) -> None:
        """An object is gone."""
        node = self._observed(view)
        if node is not None:
            self._remove(node, identity_of(view))

    def found_absent(self, identity: Identity) -> None:
        """A live look found nothing at these coordinates: a virtual delete event."""
        node = self.nodes.get(identity.uid)
        if node is None:
            return
        if not self._by_coordinates:
            self._remove(node, identity)
            return
        if node.virtual:
            matching, others = partition(node.dependents.values(), identity)
            if others:
                if matching:
                    self.absent.add(identity)
                for dependent in matching:
                    self._try_delete(dependent, False)
                if node.identity == identity:
                    other = alternate(others, identity)
                    if other is not None:
                        self._try_delete(self._clone(node, other), True)
                return
        elif node.identity != identity:
            matching, _ = partition(node.dependents.values(), identity)
            if matching:
                self.absent.add(identity)
            for dependent in matching:
                self._try_delete(dependent, False)
            return
        self._remove(node, identity)

    # ------------------------------------------------------------------ parts

    def _observed(self, view: View) -> Node | None:
        """The node of an object that was just heard of: no longer virtual."""
        node = self.nodes.get(view.uid)
        if node is None or not node.virtual:
            return node
        identity = identity_of(view)
        if self._by_coordinates and node.identity != identity:
            _, doubtful = partition(node.dependents.values(), identity)
            for dependent in doubtful:
                if identity.namespace and dependent.identity.namespace != identity.namespace:
                    self._report(dependent, identity.uid)
                self._try_delete(dependent, False)
            node = self._clone(node, identity)
        node.virtual = False
        return node

    def _join_owners(self, node: Node, owners: Iterable[OwnerReference]) -> None:
        """Enter a node into its owners' dependents; an owner not heard of gets a virtual node."""
        doubtful = False
        namespace = node.identity.namespace
        for reference in owners:
            owner = self.nodes.get(reference.uid)
            if owner is None:
                owner = self._made(Identity(coordinates(reference), namespace), virtual=True)
                owner.dependents[node.serial] = node
                self._try_delete(owner, False)
                continue
            owner.dependents[node.serial] = node
            if doubtful or not self._by_coordinates:
                continue
            known = owner.identity
            if known.namespace and known.namespace != namespace:
                if not owner.virtual:
                    self._report(node, reference.uid)
                doubtful = True
            elif coordinates(reference) != known.coordinates:
                doubtful = True
            elif owner.virtual and known.namespace != namespace:
                # Made by a cluster-scoped dependent, maybe of a namespaced kind (issue 98040).
                doubtful = True
        if doubtful:
            self._try_delete(node, False)

    def _leave_owners(self, node: Node, owners: Iterable[OwnerReference]) -> None:
        for reference in owners:
            owner = self.nodes.get(reference.uid)
            if owner is not None:
                owner.dependents.pop(node.serial, None)

    def _references_changed(self, node: Node, references: Sequence[OwnerReference]) -> None:
        before = {owner.uid: owner for owner in node.owners}
        after = {owner.uid: owner for owner in references}
        added = [owner for uid, owner in after.items() if uid not in before]
        removed = [owner for uid, owner in before.items() if uid not in after]
        unblocked = [owner.uid for owner in removed if owner.block_owner_deletion]
        differing = False
        for uid, owner in after.items():
            old = before.get(uid)
            if old is None or old == owner:
                continue
            differing = True
            if old.block_owner_deletion and not owner.block_owner_deletion:
                unblocked.append(uid)
        if not added and not removed and not differing:
            return
        for uid in unblocked:
            if uid in self.nodes:
                self._try_delete(self.nodes[uid], False)
        node.owners = references
        self._join_owners(node, added)
        self._leave_owners(node, removed)

    def _transitions(self, old: ObjectMeta | None, new: ObjectMeta, node: Node) -> None:
        """A deletion that begins with one of the collector's finalizers."""
        if not being_deleted(new):
            return
        if ORPHAN in new.finalizers and not _was_deleted_with(old, ORPHAN):
            self._try_orphan(node)
        elif FOREGROUND in new.finalizers and not _was_deleted_with(old, FOREGROUND):
            node.deleting_dependents = True
            for dependent in node.dependents.values():
                self._try_delete(dependent, False)
            self._try_delete(node, False)

    def _remove(self, node: Node, identity: Identity) -> None:
        del self.nodes[node.identity.uid]
        self._leave_owners(node, node.owners)
        if node.dependents:
            self.absent.add(identity)
        for dependent in node.dependents.values():
            self._try_delete(dependent, False)
        for reference in node.owners:
            owner = self.nodes.get(reference.uid)
            if owner is not None and owner.deleting_dependents:
                self._try_delete(owner, False)


def _was_deleted_with(old: ObjectMeta | None, finalizer: str) -> bool:
    return old is not None and being_deleted(old) and finalizer in old.finalizers


def partition(dependents: Iterable[Node], owner: Identity) -> tuple[list[Node], list[Node]]:
    """The dependents that mean this very owner, and those that give its uid other coordinates."""
    matching, others = [], []
    for dependent in dependents:
        matches = differs = False
        for reference in dependent.owners:
            if reference.uid != owner.uid:
                continue
            here = owner.namespace in ("", dependent.identity.namespace)
            if here and coordinates(reference) == owner.coordinates:
                matches = True
            else:
                differs = True
        if matches:
            matching.append(dependent)
        if differs:
            others.append(dependent)
    return matching, others


def alternate(dependents: Iterable[Node], absent: Identity) -> Identity | None:
    """Other coordinates that dependents give an absent owner: the next ones in order, else the first."""
    found: dict[Identity, None] = {}
    for dependent in dependents:
        namespace = dependent.identity.namespace
        for reference in dependent.owners:
            if reference.uid != absent.uid:
                continue
            other = Identity(coordinates(reference), namespace)
            same = other.coordinates == absent.coordinates
            if not (same and absent.namespace in ("", namespace)):
                found[other] = None
    ordered = sorted(found, key=lambda each: each.rank)
    following = [each for each in ordered if each.rank > absent.rank]
    return next(iter(following or ordered), None)
