"""Stages that are made in the API: read again as they change, in the order of their names.

Upstream keeps them in a map, whose order it leaves to chance; it decides where several stages match by weight alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.errors import UsageError
from controlplane.kwok import stages
from controlplane.kwok.stages import Stage

__all__ = ["StoredStages"]


class StoredStages:
    """The stages of a cache; each version of an object is read once.

    `complain` is told of an object that is no stage: it is left out, and the others stay.
    """

    def __init__(self, cache: Iterable[Object[Any]], complain: Callable[[Tree, str], None]) -> None:
        self._cache = cache
        self._complain = complain
        self._known: dict[str, tuple[Tree, Stage | None]] = {}

    def read(self) -> tuple[Stage, ...]:
        """Return the stages as they are now."""
        before, self._known = self._known, {}
        for each in sorted(self._cache, key=lambda each: each.name):
            known = before.get(each.name)
            if known is None or known[0] is not each.tree:
                known = each.tree, self._stage(each.tree)
            self._known[each.name] = known
        return tuple(stage for _, stage in self._known.values() if stage is not None)

    def _stage(self, tree: Tree) -> Stage | None:
        try:
            return stages.read(tree)
        except UsageError as error:
            self._complain(tree, str(error))
            return None
