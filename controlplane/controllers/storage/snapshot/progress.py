"""Progress of a (group) snapshot: its metrics, and its content's status copied with the events about it.

Upstream: updateSnapshotStatus and updateGroupSnapshotStatus, which say the same of either kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.api.tree import Tree
from controlplane.client import calls
from controlplane.controllers.common.controller import NORMAL
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.storage.snapshot import metrics
from controlplane.controllers.storage.snapshot.binding import given_content
from controlplane.controllers.storage.snapshot.objects import (
    GROUP,
    SNAPSHOT,
    Kind,
    is_created,
    is_ready,
    key_of,
    status_of,
    uid_of,
    update_error,
    with_status,
)
from controlplane.controllers.storage.snapshot.status import copied
from controlplane.decisions import Hang

if TYPE_CHECKING:
    from controlplane.controllers.storage.snapshot.classes import ClassChoice
    from controlplane.controllers.storage.snapshot.shared import Shared


class Words(NamedTuple):
    """Names of a kind in reasons and texts of events, and of its operations in metrics."""

    title: str
    create: str
    create_and_ready: str
    delete: str


WORDS: Final = {
    SNAPSHOT: Words("Snapshot", metrics.CREATE, metrics.CREATE_AND_READY, metrics.DELETE),
    GROUP: Words(
        "GroupSnapshot", metrics.CREATE_GROUP, metrics.CREATE_GROUP_AND_READY, metrics.DELETE_GROUP
    ),
}


class Progress:
    """Follows (group) snapshots from the first sight of them to their end."""

    def __init__(self, shared: Shared, classes: ClassChoice) -> None:
        self._shared = shared
        self._classes = classes

    def begin_creation(self, kind: Kind, tree: Tree) -> Reconcile[None]:
        """It is not ready yet: from now on counts how long that takes."""
        words = WORDS[kind]
        if not is_created(tree):
            yield from self._begin(kind, tree, words.create)
        yield from self._begin(kind, tree, words.create_and_ready)

    def begin_deletion(self, kind: Kind, tree: Tree) -> Reconcile[None]:
        """It is being deleted."""
        yield from self._begin(kind, tree, WORDS[kind].delete)

    def _begin(self, kind: Kind, tree: Tree, operation: str) -> Reconcile[None]:
        yield from self._lock()
        static = given_content(kind, tree) is not None
        shared = self._shared
        shared.metrics.begin(
            operation,
            uid_of(tree),
            self._classes.driver_for_metrics(kind, tree),
            metrics.STATIC if static else metrics.DYNAMIC,
            shared.host.now,
        )

    def _succeed(self, operation: str, uid: str, driver: str) -> Reconcile[None]:
        """Record a success. Before #581 the cancelling task took the mutex that it held already."""
        yield from self._lock()
        shared = self._shared
        if not shared.fixes.fixed("581") and shared.metrics.cancels(operation, uid):
            shared.metrics.held = True
            yield from self._lock()
        shared.metrics.succeed(operation, uid, driver, shared.host.now)

    def _lock(self) -> Reconcile[None]:
        if self._shared.metrics.held:
            yield Hang("metrics.lock")

    def gone(self, kind: Kind, tree: Tree) -> Reconcile[None]:
        """It has vanished: its content may have to follow."""
        shared = self._shared
        driver = self._classes.driver_for_metrics(kind, tree)
        yield from self._succeed(WORDS[kind].delete, uid_of(tree), driver)
        bound = status_of(tree).get(kind.bound_field)
        if bound:
            shared.content_queues[kind].add(bound)

    def copy_status(self, kind: Kind, tree: Tree, content: Tree, told: Tree) -> Reconcile[None]:
        """Write what the content tells; events and metrics come first, so they stand even where that fails."""
        shared, words = self._shared, WORDS[kind]
        place, metadata = key_of(tree), tree["metadata"]
        try:
            found = yield from calls.get(kind.resource, metadata["namespace"], metadata["name"])
        except RequestFailed as error:
            raise Retry(f"error get {kind.word} {place} from api server: {error}") from None
        live = found.tree
        status = copied(kind, live.get("status"), told)
        if status is None:
            return
        changed = with_status(live, status)
        driver = content["spec"]["driver"]
        if not is_created(live) and is_created(changed):
            yield from self._succeed(words.create, uid_of(tree), driver)
            text = f"{words.title} {place} was successfully created by the CSI driver."
            shared.event(tree, NORMAL, f"{words.title}Created", text)
        if not is_ready(live) and is_ready(changed):
            yield from self._succeed(words.create_and_ready, uid_of(tree), driver)
            text = f"{words.title} {place} is ready to use."
            shared.event(tree, NORMAL, f"{words.title}Ready", text)
        try:
            written = yield from calls.update(kind.resource, changed, "status")
        except RequestFailed as error:
            raise update_error(place, error) from None
        shared.stores[kind].put(written.tree)
