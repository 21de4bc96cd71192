"""An object as it was read from a file, or as it rests: its bytes, parsed when somebody looks at it first."""

from __future__ import annotations

import json
from typing import Any

from controlplane.api.object import KEPT_JSON, Object
from controlplane.api.tree import Tree

__all__ = ["Stored", "rest"]

_set_tree = Object.__dict__["tree"].__set__
_drop_tree = Object.__dict__["tree"].__delete__


class Stored(Object[Any]):
    """What `Object` is, once its tree has been asked for."""

    __slots__ = ()

    def __init__(self, value: bytes) -> None:
        self._like = None
        self._view = None
        self._json = value
        self.packed = None

    @property
    def tree(self) -> Tree:  # type: ignore[override]
        """The tree, parsed now: from here on this is an object like any other."""
        value = self._json
        assert value is not None
        tree: Tree = json.loads(value.decode("utf-8", "surrogatepass"))
        _set_tree(self, tree)
        if len(value) > KEPT_JSON:
            self._json = None
        self.__class__ = Object  # type: ignore[assignment]
        return tree


def rest(obj: Object[Any]) -> None:
    """Keep an object as bytes only, a third of what its tree takes, until somebody looks at it.

    Right for what is seldom looked at again. What has a view (which holds the tree) or is very long stays as it is.
    """
    if type(obj) is not Object or obj._view is not None:
        return
    if len(obj.json) <= KEPT_JSON:
        _drop_tree(obj)
        obj._like = None
        obj.__class__ = Stored
