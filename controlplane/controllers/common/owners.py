"""Owners: the objects of one kind that control others, asked for when a controlled object changes.

Upstream: `resolveControllerRef`, `getPodControllers` (or `getDaemonSetsForPod`, ...) and the handlers of pods, which
each workload controller has in its own copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from controlplane.api.generic import V
from controlplane.api.labels import from_label_selector
from controlplane.controllers.common.ownership import controller_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controlplane.api.meta import LabelSelector, OwnerReference
    from controlplane.api.object import Object
    from controlplane.api.view import View
    from controlplane.client.indexer import Indexer


def _selector(obj: Object[Any]) -> LabelSelector | None:
    found: LabelSelector | None = obj.view.spec.selector
    return found


class Owners(Generic[V]):
    """The owners of one kind. `ask` queues the key of one, `selector` gives its selector.

    The cache needs the index "namespace" where orphans are adopted.
    """

    def __init__(
        self,
        kind: str,
        cache: Indexer[V],
        ask: Callable[[str], None],
        selector: Callable[[Object[V]], LabelSelector | None] = _selector,
    ) -> None:
        self._kind = kind
        self._cache = cache
        self._ask = ask
        self._selector = selector

    def resolve(self, namespace: str, reference: OwnerReference | None) -> Object[V] | None:
        """Return the owner that a reference names, by kind, name and uid."""
        if reference is None or reference.kind != self._kind:
            return None
        owner = self._cache.get(f"{namespace}/{reference.name}")
        return owner if owner is not None and owner.uid == reference.uid else None

    def of(self, controlled: View) -> Object[V] | None:
        """Return the owner that controls an object."""
        return self.resolve(controlled.namespace, controller_of(controlled))

    def adopters(self, orphan: View) -> Iterator[str]:
        """Return the keys of the owners that select an object without a controller and may adopt it."""
        for obj in self._cache.by_index("namespace", orphan.namespace):
            if from_label_selector(self._selector(obj)).matches(orphan.labels):
                yield obj.key

    def ask_adopters(self, orphan: View) -> None:
        """Ask for the owners that may adopt an object."""
        for key in self.adopters(orphan):
            self._ask(key)

    def ask_owner(self, controlled: View) -> Object[V] | None:
        """Ask for the owner of an object, and return it."""
        owner = self.of(controlled)
        if owner is not None:
            self._ask(owner.key)
        return owner

    def changed(self, before: View, after: View) -> Object[V] | None:
        """Ask for the owners that an update concerns; return the one that controls the object now.

        These are the former owner of an object that has left it, and its owner, or, if it has none, those that may
        adopt it where its labels or its owner changed.
        """
        former, reference = controller_of(before), controller_of(after)
        if former != reference:
            self.ask_owner(before)
        if reference is not None:
            return self.ask_owner(after)
        if before.labels != after.labels or former is not None:
            self.ask_adopters(after)
        return None
