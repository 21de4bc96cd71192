"""Objects of custom kinds in memory."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.scheduler.framework.custom import Tree

__all__ = ["Objects"]


class Objects:
    """Objects of custom kinds by kind, namespace and name. Cluster-scoped ones have the namespace ""."""

    def __init__(self, trees: Iterable[Tree] = ()) -> None:
        self._found: dict[str, dict[tuple[str, str], Tree]] = {}
        for tree in trees:
            self.put(tree)

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        """Return the object, None if there is none."""
        return self._found.get(kind, {}).get((namespace, name))

    def list(self, kind: str) -> list[Tree]:
        """Return all objects of a kind, in the order in which they were first put."""
        return list(self._found.get(kind, {}).values())

    def put(self, tree: Tree) -> None:
        """Add or replace an object."""
        meta = tree["metadata"]
        key = (meta.get("namespace") or "", meta["name"])
        self._found.setdefault(tree["kind"], {})[key] = tree

    def replace(self, trees: Iterable[Tree]) -> None:
        """Forget all objects and put these."""
        self._found.clear()
        for tree in trees:
            self.put(tree)

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Drop an object if it is there."""
        self._found.get(kind, {}).pop((namespace, name), None)
