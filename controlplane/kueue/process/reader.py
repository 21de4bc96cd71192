"""Objects as the informers last heard of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.kueue.process.kinds import KINDS, Kinds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controlplane.api.tree import Tree
    from controlplane.controllers.common.controller import Caches


class CacheReader:
    """The informer caches of some kinds.

    Args:
        caches: The shared informers of the process; made when this is.
        kinds: The kinds to watch, names in `resources`.
        resources: The resource of each kind.
    """

    __slots__ = ("_stores",)

    def __init__(self, caches: Caches, kinds: Iterable[str], resources: Kinds = KINDS) -> None:
        self._stores = {kind: caches.of(resources[kind]) for kind in kinds}

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        """The object, None when it does not exist or its kind is not watched."""
        store = self._stores.get(kind)
        found = None if store is None else store.get(f"{namespace}/{name}" if namespace else name)
        return None if found is None else found.tree

    def list(self, kind: str, namespace: str = "") -> list[Tree]:
        """The objects of a kind, of one namespace or of all, by key."""
        store = self._stores.get(kind)
        if store is None:
            return []
        found = [each for each in store if not namespace or each.namespace == namespace]
        return [each.tree for each in sorted(found, key=lambda each: each.key)]
