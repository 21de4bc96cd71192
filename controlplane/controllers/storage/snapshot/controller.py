"""The snapshot controller: volume snapshots, group snapshots and their contents.

Upstream: kubernetes-csi/external-snapshotter pkg/common-controller/snapshot_controller_base.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.client.resources import Resource
from controlplane.controllers.common.controller import Controller, Handlers, Periodic, Work
from controlplane.controllers.common.effects import Reconcile
from controlplane.controllers.storage.snapshot.binding import Binding
from controlplane.controllers.storage.snapshot.claims import SourceClaims
from controlplane.controllers.storage.snapshot.classes import ClassChoice, ClassNotFound
from controlplane.controllers.storage.snapshot.contents import Contents
from controlplane.controllers.storage.snapshot.groups import Groups
from controlplane.controllers.storage.snapshot.members import Members
from controlplane.controllers.storage.snapshot.objects import GROUP, SNAPSHOT, Kind, is_deleting
from controlplane.controllers.storage.snapshot.progress import Progress
from controlplane.controllers.storage.snapshot.shared import Flags, Shared
from controlplane.controllers.storage.snapshot.snapshots import Snapshots
from controlplane.decisions import immediate

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.controllers.common.controller import Caches, Host, Queue

WORKERS: Final = 10
BACKOFF_NS: Final = (SECOND, 300 * SECOND)
RESYNC_NS: Final = 900 * SECOND


class SnapshotController(Controller):
    """The memory of one snapshot controller."""

    name = "snapshot-controller"
    component = "snapshot-controller"
    flags: ClassVar[Flags] = Flags()

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.shared = shared = Shared(host, caches, self.flags)
        self.metrics = shared.metrics
        claims = SourceClaims(shared)
        self._classes = classes = ClassChoice(shared, claims)
        binding = Binding(shared)
        self._contents = Contents(shared, binding)
        self._progress = progress = Progress(shared, classes)
        members = Members(shared, classes)
        self._snapshots = Snapshots(shared, claims, classes, binding, progress)
        self._groups = Groups(shared, claims, classes, binding, members, progress)

    def work(self) -> tuple[Work, ...]:
        """Four queues, or two without groups."""

        def queue(name: str, reconcile: Callable[[str], Reconcile[None]]) -> Work:
            return Work(name, reconcile, workers=WORKERS, backoff_ns=BACKOFF_NS)

        found = (queue("snapshots", self._sync_snapshot), queue("contents", self._sync_content))
        if not self.flags.groups:
            return found
        return (
            *found,
            queue("groupsnapshots", self._sync_group),
            queue("groupcontents", self._sync_group_content),
        )

    def periodic(self) -> tuple[Periodic, ...]:
        """The informers' resync: everything again, unchanged."""
        return (
            Periodic("snapshots.resync", RESYNC_NS, immediate(self._resync), after_ns=RESYNC_NS),
        )

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Return the handlers: every change of the four kinds is a key in its own queue; classes, claims and volumes
        queue nothing.
        """
        shared = self.shared
        found: dict[Resource[Any], Handlers] = {}
        for kind in shared.queues:
            found[kind.resource] = _enqueue(shared.queues[kind])
            found[kind.contents] = _enqueue(shared.content_queues[kind])
        return found

    def _resync(self) -> None:
        shared = self.shared
        for kind, queue in shared.queues.items():
            for obj in shared.listers[kind]:
                queue.add(obj.key)
            for obj in shared.content_listers[kind]:
                shared.content_queues[kind].add(obj.key)

    # ------------------------------------------------------------------ keys

    def _sync_snapshot(self, key: str) -> Reconcile[None]:
        yield from self._sync(SNAPSHOT, key, self._snapshots.sync)

    def _sync_group(self, key: str) -> Reconcile[None]:
        yield from self._sync(self.shared.group, key, self._groups.sync)

    def _sync(
        self,
        kind: Kind,
        key: str,
        sync: Callable[[Tree], Reconcile[None]],
    ) -> Reconcile[None]:
        """One key: its class first, then, unless something newer is known, the object itself."""
        shared = self.shared
        shared.begin()
        found = shared.listers[kind].get(key)
        if found is None:
            known = shared.stores[kind].get(key)
            if known is not None:
                # Before #1216 a group that was gone was taken out of the snapshots' store, and stayed in its own.
                wrong = kind == GROUP and not shared.fixes.fixed("1216")
                shared.stores[SNAPSHOT if wrong else kind].remove(key)
                yield from self._progress.gone(kind, known)
            return
        tree, failure = found.tree, None
        try:
            tree = yield from self._classes.check(kind, tree)
        except ClassNotFound as error:
            if not is_deleting(tree):
                raise
            failure = error
        if shared.stores[kind].put(tree):
            yield from sync(tree)
        if failure is not None:
            raise failure

    def _sync_content(self, key: str) -> Reconcile[None]:
        yield from self._sync_content_of(SNAPSHOT, key)

    def _sync_group_content(self, key: str) -> Reconcile[None]:
        yield from self._sync_content_of(self.shared.group, key)

    def _sync_content_of(self, kind: Kind, key: str) -> Reconcile[None]:
        shared = self.shared
        shared.begin()
        found = shared.content_listers[kind].get(key)
        if found is not None:
            if shared.content_stores[kind].put(found.tree):
                yield from self._contents.sync(kind, found.tree)
            return
        known = shared.content_stores[kind].remove(key)
        if known is not None:
            reference = known["spec"][kind.reference_field]
            shared.queues[kind].add(f"{reference.get('namespace')}/{reference.get('name')}")


def _enqueue(queue: Queue) -> Handlers:
    return Handlers(
        lambda obj: queue.add(obj.key),
        lambda _old, new: queue.add(new.key),
        lambda obj, _unknown: queue.add(obj.key),
    )
