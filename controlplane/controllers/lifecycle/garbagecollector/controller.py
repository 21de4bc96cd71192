"""The garbage collector. Upstream: pkg/controller/garbagecollector/garbagecollector.go.

What is heard goes through a queue to the one task that keeps the graph; workers look live at what
that task doubts, and delete, or let go of an owner.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from controlplane.api.request import MERGE_PATCH
from controlplane.api.times import SECOND
from controlplane.client import calls
from controlplane.client.calls import delete_options
from controlplane.client.errors import (
    ApiError,
    is_conflict,
    is_not_found,
    is_unsupported_media_type,
)
from controlplane.controllers.common.controller import WARNING, Controller, Handlers, Work
from controlplane.controllers.common.effects import (
    Reconcile,
    RequestFailed,
    Retry,
    aggregate,
    together,
)
from controlplane.controllers.common.rest_mapper import NoKindMatch, ServedKind
from controlplane.controllers.lifecycle.garbagecollector.graph import (
    FOREGROUND,
    ORPHAN,
    Graph,
    Identity,
    Node,
    coordinates,
)
from controlplane.decisions import Sleep, immediate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controlplane.api.meta import OwnerReference
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.api.view import View
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host

WORKERS = 20
CONFLICT_STEPS = 4
ORPHANS_LATER = "26120"
"""Gate: caches of different kinds have some time to catch up before an owner is let go. Proposed, not merged."""
ORPHAN_PAUSE_NS = 120 * SECOND
BY_COORDINATES = "92743"
"""Gate: an owner is absent by namespace, kind, name and uid; before, by uid alone."""
CONFLICT_PAUSE_NS = 10_000_000
IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""Resources that own nothing and are owned by nothing: upstream's default ignored resources."""


class _ClusterScopedDependent(Exception):
    """A cluster-scoped object that refers to a namespaced owner: no retry makes that right."""


class GarbageCollectorController(Controller):
    """Keeps the graph of owners, and deletes what has none left."""

    name = "garbage-collector-controller"
    any_kind = True

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self._changes = host.queue("graph_changes")
        self._to_delete = host.queue("gc_attempt_to_delete")
        self._to_orphan = host.queue("gc_attempt_to_orphan")
        self.graph = Graph(
            self._try_delete,
            self._try_orphan,
            self._report,
            by_coordinates=host.fixes.fixed(BY_COORDINATES),
        )
        self._heard: dict[str, Callable[[], None]] = {}
        self._serial = 0
        self._asked: dict[str, Node] = {}
        for each in self.monitored():
            caches.of(each.resource)

    def monitored(self) -> list[ServedKind]:
        """The kinds whose objects can be collected, each resource once."""
        return [
            each
            for each in self.host.rest_mapper.preferred()
            if (each.resource.group, each.resource.name) not in IGNORED
            and each.has("delete", "list", "watch")
        ]

    def work(self) -> tuple[Work, ...]:
        """One task for the graph, and workers for what is to be deleted and to be let go."""
        return (
            Work("graph_changes", immediate(self.process_change), workers=1),
            Work("gc_attempt_to_delete", self.attempt_to_delete, workers=WORKERS),
            Work("gc_attempt_to_orphan", self.attempt_to_orphan, workers=WORKERS),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Everything that is heard goes to the graph."""
        return {each.resource: self.handlers_of(each) for each in self.monitored()}

    def handlers_of(self, kind: ServedKind) -> Handlers:
        """Return the handlers of changes of one resource."""

        def updated(old: Object[Any], new: Object[Any]) -> None:
            one, other = old.metadata, new.metadata
            if old.uid != new.uid:
                self._hear(partial(self.graph.deleted, old.view))
                self._hear(partial(self.graph.changed, None, new.view))
            elif any(one.get(name) != other.get(name) for name in _OF_INTEREST):
                self._hear(partial(self.graph.changed, old.view.metadata, new.view))

        return Handlers(
            lambda obj: self._hear(partial(self.graph.changed, None, obj.view)),
            updated,
            lambda obj, _unknown: self._hear(partial(self.graph.deleted, obj.view)),
        )

    def handlers_of_kind(self, kind: ServedKind) -> Handlers | None:
        """Custom objects own and are owned like all others."""
        return self.handlers_of(kind)

    # ------------------------------------------------------------------ the graph's task

    def _hear(self, change: Callable[[], None]) -> None:
        self._serial += 1
        key = str(self._serial)
        self._heard[key] = change
        self._changes.add(key)

    def process_change(self, key: str) -> None:
        """Bring the graph up to one change."""
        self._heard.pop(key)()

    def _try_delete(self, node: Node, backoff: bool) -> None:
        self._asked[node.key] = node
        if backoff:
            self._to_delete.add_rate_limited(node.key)
        else:
            self._to_delete.add(node.key)

    def _try_orphan(self, node: Node) -> None:
        self._asked[node.key] = node
        if self.host.fixes.fixed(ORPHANS_LATER):
            self._to_orphan.add_after(node.key, ORPHAN_PAUSE_NS)
        else:
            self._to_orphan.add(node.key)

    def _report(self, dependent: Node, owner_uid: str) -> None:
        """Tell of an owner reference into another namespace, at the dependent."""
        for owner in dependent.owners:
            if owner.uid == owner_uid:
                namespace = dependent.identity.namespace
                wanted = Identity(coordinates(owner), namespace)
                text = f'ownerRef {wanted} does not exist in namespace "{namespace}"'
                self.host.event(_event_reference(dependent), WARNING, _INVALID_NAMESPACE, text)
                return

    # ------------------------------------------------------------------ deleting

    def attempt_to_delete(self, key: str) -> Reconcile[None]:
        """Read a node live, and delete its object if it has no owner any more."""
        node = self._asked.get(key)
        if node is None:
            return
        if node.virtual:
            known = self.graph.nodes.get(node.identity.uid)
            if known is None or not known.virtual:
                return
        try:
            absent = yield from self._attempt(node)
        except _ClusterScopedDependent:
            return
        except NoKindMatch as error:
            raise Retry(str(error)) from error
        if not absent and node.virtual:
            raise Retry(f"{node.identity} was not heard of yet")
        if self.graph.nodes.get(node.identity.uid) is not node:
            self._asked.pop(key, None)

    def _attempt(self, node: Node) -> Reconcile[bool]:
        """Return whether the object was found absent."""
        if node.being_deleted and not node.deleting_dependents:
            return False
        try:
            latest = yield from self._get(node.identity)
        except ApiError as error:
            if not is_not_found(error):
                raise
            latest = None
        if latest is None or latest.uid != node.identity.uid:
            self._hear(partial(self.graph.found_absent, node.identity))
            return True
        if node.deleting_dependents:
            yield from self._dependents_go(node)
            return False
        references = latest.view.metadata.owner_references
        if not references:
            return False
        solid, dangling, waiting = yield from self._classify(node, references)
        if solid:
            if dangling or waiting:
                yield from self._let_go(node, [each.uid for each in (*dangling, *waiting)])
            return False
        policy = "Background"
        if waiting and node.dependents:
            policy = "Foreground"
            if any(each.deleting_dependents for each in node.dependents.values()):
                yield from self._unblock(node)
        elif ORPHAN in latest.view.metadata.finalizers:
            policy = "Orphan"
        elif FOREGROUND in latest.view.metadata.finalizers:
            policy = "Foreground"
        yield from self._delete(node.identity, latest, policy)
        return False

    def _dependents_go(self, node: Node) -> Reconcile[None]:
        """An object that waits for its dependents: let it go, or see to those that it waits for."""
        blocking = node.blocking_dependents()
        if not blocking:
            yield from self._remove_finalizer(node.identity, FOREGROUND)
        for dependent in blocking:
            if not dependent.deleting_dependents:
                self._try_delete(dependent, False)

    def _classify(
        self, node: Node, references: Sequence[OwnerReference]
    ) -> Reconcile[tuple[list[OwnerReference], list[OwnerReference], list[OwnerReference]]]:
        """Owners that are there, that are absent, and that wait for their dependents to go."""
        solid, dangling, waiting = [], [], []
        for reference in references:
            owner = yield from self._owner(reference, node)
            if owner is None:
                dangling.append(reference)
                continue
            meta = owner.view.metadata
            if meta.deletion_timestamp is not None and FOREGROUND in meta.finalizers:
                waiting.append(reference)
            else:
                solid.append(reference)
        return solid, dangling, waiting

    def _owner(self, reference: OwnerReference, node: Node) -> Reconcile[Object[View] | None]:
        """The owner that a reference means, None if it is absent."""
        absent = self.graph.absent
        namespace = node.identity.namespace
        wanted = Identity(coordinates(reference), "")
        if wanted in absent:
            return None
        wanted = Identity(coordinates(reference), namespace)
        if wanted in absent:
            return None
        kind = self.host.rest_mapper.of(reference.api_version, reference.kind)
        if not kind.namespaced:
            wanted = Identity(coordinates(reference), "")
        elif not namespace:
            raise _ClusterScopedDependent(str(node.identity))
        try:
            owner = yield from self._get(wanted)
        except ApiError as error:
            if not is_not_found(error):
                raise
            owner = None
        if owner is None or owner.uid != reference.uid:
            absent.add(wanted)
            return None
        return owner

    # ------------------------------------------------------------------ letting go

    def attempt_to_orphan(self, key: str) -> Reconcile[None]:
        """Take an owner out of its dependents' references, then let it go."""
        owner = self._asked.get(key)
        if owner is None:
            return
        parts = [
            self._orphan(dependent, owner.identity.uid)
            for dependent in list(owner.dependents.values())
        ]
        results = yield from together("gc.orphan", parts)
        errors = [error for error in results if error is not None]
        if errors:
            raise aggregate(errors)
        try:
            yield from self._remove_finalizer(owner.identity, ORPHAN)
        except NoKindMatch as error:
            raise Retry(str(error)) from error

    def _orphan(self, dependent: Node, owner_uid: str) -> Reconcile[Exception | None]:
        try:
            yield from self._let_go(dependent, [owner_uid])
        except (*RequestFailed, NoKindMatch) as error:
            if isinstance(error, ApiError) and is_not_found(error):
                return None
            return Retry(f"orphaning {dependent.identity} failed, {error}")
        return None

    # ------------------------------------------------------------------ requests

    def _place(self, identity: Identity) -> tuple[Resource[Any], str]:
        """The resource of an object, and the namespace to ask in."""
        found = identity.coordinates
        kind = self.host.rest_mapper.of(found.api_version, found.kind)
        if not kind.namespaced:
            return kind.resource, ""
        if not identity.namespace:
            raise _ClusterScopedDependent(str(identity))
        return kind.resource, identity.namespace

    def _get(self, identity: Identity) -> Reconcile[Object[View]]:
        resource, namespace = self._place(identity)
        return (yield from calls.get(resource, namespace, identity.coordinates.name))

    def _delete(self, identity: Identity, latest: Object[View], policy: str) -> Reconcile[None]:
        """Delete what was looked at; if it changed meanwhile, but not its owners, all the same."""
        resource, namespace = self._place(identity)
        name = identity.coordinates.name
        version = str(latest.metadata.get("resourceVersion") or "")
        options = delete_options(
            uid=identity.uid, resource_version=version, propagation_policy=policy
        )
        try:
            yield from calls.delete(resource, namespace, name, options)
        except ApiError as error:
            if not is_conflict(error) or not version:
                raise
            live = yield from self._get(identity)
            owners = live.view.metadata.owner_references
            if live.uid != identity.uid or owners != latest.view.metadata.owner_references:
                raise
            options = delete_options(uid=identity.uid, propagation_policy=policy)
            yield from calls.delete(resource, namespace, name, options)

    def _patch(
        self, node: Node, body: Tree, merge: Callable[[Object[View]], Tree]
    ) -> Reconcile[None]:
        """Patch strategically, or where that is not supported (custom resources) by a merge patch."""
        resource, namespace = self._place(node.identity)
        name = node.identity.coordinates.name
        try:
            yield from calls.patch(resource, namespace, name, body)
        except ApiError as error:
            if not is_unsupported_media_type(error):
                raise
            live = yield from self._get(node.identity)
            yield from calls.patch(resource, namespace, name, merge(live), kind=MERGE_PATCH)

    def _let_go(self, node: Node, owners: Sequence[str]) -> Reconcile[None]:
        """Take owners (uids) out of an object's references."""
        body = {
            "metadata": {
                "ownerReferences": [{"$patch": "delete", "uid": uid} for uid in owners],
                "uid": node.identity.uid,
            }
        }

        def merge(live: Object[View]) -> Tree:
            references = live.metadata.get("ownerReferences") or ()
            return _merged(live, [each for each in references if each["uid"] not in owners])

        yield from self._patch(node, body, merge)

    def _unblock(self, node: Node) -> Reconcile[None]:
        """Let no owner wait for this object: it waits for a dependent that waits for its own."""
        blocking = [_unblocked(owner) for owner in node.owners if owner.block_owner_deletion]
        references = {"ownerReferences": blocking} if blocking else {}
        body = {"metadata": {**references, "uid": node.identity.uid}}

        def merge(live: Object[View]) -> Tree:
            references = live.metadata.get("ownerReferences") or ()
            return _merged(
                live,
                [
                    {**each, "blockOwnerDeletion": False} if "blockOwnerDeletion" in each else each
                    for each in references
                ],
            )

        yield from self._patch(node, body, merge)

    def _remove_finalizer(self, identity: Identity, finalizer: str) -> Reconcile[None]:
        """Remove a finalizer; after a conflict with another writer, read it live again."""
        pause = CONFLICT_PAUSE_NS
        for attempt in range(CONFLICT_STEPS):
            if attempt:
                yield Sleep(pause, "gc.conflict")
                pause *= 5
            try:
                live = yield from self._get(identity)
            except ApiError as error:
                if is_not_found(error):
                    return
                raise Retry(
                    f"cannot finalize owner {identity}, because cannot get it: {error}. "
                    "The garbage collector will retry later."
                ) from error
            finalizers: list[str] = live.metadata.get("finalizers") or []
            if finalizer not in finalizers:
                return
            left = [each for each in finalizers if each != finalizer]
            metadata = {"resourceVersion": live.metadata.get("resourceVersion", "")}
            body = {"metadata": {**metadata, "finalizers": left or None}}
            resource, namespace = self._place(identity)
            name = identity.coordinates.name
            try:
                yield from calls.patch(resource, namespace, name, body, kind=MERGE_PATCH)
            except ApiError as error:
                if not is_conflict(error):
                    raise
            else:
                return
        raise Retry(
            f"updateMaxRetries({CONFLICT_STEPS}) has reached. "
            f"The garbage collector will retry later for owner {identity}."
        )


_INVALID_NAMESPACE = "OwnerRefInvalidNamespace"
_OF_INTEREST = ("ownerReferences", "deletionTimestamp", "finalizers")


def _merged(live: Object[View], references: list[Tree]) -> Tree:
    version = live.metadata.get("resourceVersion", "")
    return {"metadata": {"resourceVersion": version, "ownerReferences": references or None}}


def _unblocked(owner: OwnerReference) -> Tree:
    found: Tree = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller is not None:
        found["controller"] = owner.controller
    return {**found, "blockOwnerDeletion": False}


def _event_reference(node: Node) -> Tree:
    found = node.identity.coordinates
    reference = {
        "apiVersion": found.api_version,
        "kind": found.kind,
        "name": found.name,
        "namespace": node.identity.namespace,
        "uid": found.uid,
    }
    return {key: value for key, value in reference.items() if value}
