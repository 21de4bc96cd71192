"""The private stores of the snapshot controllers. Upstream: pkg/utils/util.go (StoreObjectUpdate).

A controller keeps, besides what its informers know, what it last worked with or was answered; what is
older than that is not worked on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from controlplane.api.tree import Tree
from controlplane.controllers.storage.snapshot.objects import key_of

if TYPE_CHECKING:
    from controlplane.api.object import Object


class PrivateStore:
    """The newest known state of each object of a kind."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}

    def fill(self, objects: Iterable[Object[Any]]) -> None:
        """Begin with what the informers know."""
        for obj in objects:
            self._trees.setdefault(obj.key, obj.tree)

    def get(self, key: str) -> Tree | None:
        """The state last seen."""
        return self._trees.get(key)

    def put(self, tree: Tree) -> bool:
        """Keep a state unless a newer one is known, and say so; equally old ones pass, for resyncs.

        What has no version (an object that was never answered) is kept only if nothing is known,
        and makes everything later look old.
        """
        key = key_of(tree)
        known = self._trees.get(key)
        if known is not None:
            ours, theirs = _version(known), _version(tree)
            if ours is None or theirs is None or ours > theirs:
                return False
        self._trees[key] = tree
        return True

    def overwrite(self, tree: Tree) -> None:
        """Change the kept object in place, as upstream's code does where it edits what it was handed."""
        self._trees[key_of(tree)] = tree

    def remove(self, key: str) -> Tree | None:
        """Forget an object; what was known of it."""
        return self._trees.pop(key, None)


def _version(tree: Tree) -> int | None:
    text = str(tree["metadata"].get("resourceVersion", ""))
    return int(text) if text.isdecimal() else None
