"""The reconcilers of ResourceFlavors and AdmissionChecks: a finalizer while a cluster queue uses them.

Follows `pkg/controller/core/resourceflavor_controller.go` and `admissioncheck_controller.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from attrs import frozen

from controlplane.api.equality import by_value
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.controllers.effects import (
    Done,
    Reader,
    Reconcile,
    Update,
    ignoring_not_found,
)
from controlplane.kueue.controllers.queue_objects import (
    has_finalizer,
    with_finalizer,
    without_finalizer,
)

__all__ = ["AdmissionCheckController", "ResourceFlavorController"]

FLAVOR: Final = "ResourceFlavor"
CHECK: Final = "AdmissionCheck"
_OF_INTEREST: Final = ("nodeTaints", "tolerations", "nodeLabels")


class Notified(Protocol):
    """The queue manager, as these reconcilers call it."""

    def notify(self, names: Iterable[str]) -> object:
        """Ask for a flush of the trees of these cluster queues."""
        ...


class UsedCache(Protocol):
    """The scheduler cache, as these reconcilers call it; see `kueue.cache.cache.Cache`."""

    def add_or_update_flavor(self, flavor: Tree) -> list[str]: ...
    def delete_flavor(self, flavor: Tree) -> list[str]: ...
    def cluster_queues_using_flavor(self, flavor: str) -> list[str]: ...
    def add_or_update_check(self, check: Tree) -> list[str]: ...
    def delete_check(self, name: str) -> list[str]: ...
    def cluster_queues_using_check(self, check: str) -> list[str]: ...


def _hold(kind: str, reader: Reader, name: str, users: Callable[[str], list[str]]) -> Reconcile:
    tree = reader.get(kind, "", name)
    if tree is None:
        return Done()
    if not tree["metadata"].get("deletionTimestamp"):
        if not has_finalizer(tree):
            yield Update(kind, with_finalizer(tree))
    elif has_finalizer(tree) and not users(name):
        yield Update(kind, without_finalizer(tree))
    return Done()


@frozen
class ResourceFlavorController:
    """Reconciles ResourceFlavors; each event returns whether to reconcile the flavor."""

    reader: Reader
    queues: Notified
    cache: UsedCache

    def reconcile(self, name: str) -> Reconcile:
        """Keep the finalizer while a cluster queue uses the flavor."""
        users = self.cache.cluster_queues_using_flavor
        return (yield from ignoring_not_found(_hold(FLAVOR, self.reader, name, users)))

    def created(self, flavor: Tree) -> bool:
        """A flavor is new; queues that become active by it are flushed."""
        self._notify(self.cache.add_or_update_flavor(flavor))
        return True

    def updated(self, old: Tree, new: Tree) -> bool:
        """A flavor changed; what its labels, taints or tolerations refused may fit now."""
        if new["metadata"].get("deletionTimestamp"):
            return True
        names = self.cache.add_or_update_flavor(new)
        before, after = (each.get("spec") or EMPTY_MAP for each in (old, new))
        if any(by_value(before.get(name)) != by_value(after.get(name)) for name in _OF_INTEREST):
            names = [*names, *self.cache.cluster_queues_using_flavor(new["metadata"]["name"])]
        self._notify(names)
        return False

    def deleted(self, flavor: Tree) -> bool:
        """A flavor is gone."""
        self._notify(self.cache.delete_flavor(flavor))
        return False

    def _notify(self, names: list[str]) -> None:
        if names:
            self.queues.notify(sorted({*names}))


@frozen
class AdmissionCheckController:
    """Reconciles AdmissionChecks; each event returns whether to reconcile the check."""

    reader: Reader
    queues: Notified
    cache: UsedCache

    def reconcile(self, name: str) -> Reconcile:
        """Keep the finalizer while a cluster queue uses the check."""
        users = self.cache.cluster_queues_using_check
        return (yield from ignoring_not_found(_hold(CHECK, self.reader, name, users)))

    def created(self, check: Tree) -> bool:
        """A check is new; queues that become active by it are flushed."""
        self._notify(self.cache.add_or_update_check(check))
        return True

    def updated(self, old: Tree, new: Tree) -> bool:
        """A check changed, mostly in its condition Active."""
        if new["metadata"].get("deletionTimestamp"):
            return True
        self._notify(self.cache.add_or_update_check(new))
        return False

    def deleted(self, check: Tree) -> bool:
        """A check is gone."""
        self._notify(self.cache.delete_check(check["metadata"]["name"]))
        return True

    def _notify(self, names: list[str]) -> None:
        if names:
            self.queues.notify(names)
