"""Correlation of the parts of a new object with those of the old one.

Errors in parts that an update leaves as they were are not reported (ratcheting). Elements of lists of type map
correspond by their keys; elements of other lists to nothing.

Source: apiserver pkg/cel/common/equality.go and maplist.go.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from controlplane.api.tree import Tree

__all__ = ["Correlated"]

_Children = dict[str | int, "Correlated | None"]


class Correlated:
    """A new value beside its old one, under the schema of both.

    Args:
        new: the value to be validated.
        old: what it replaces.
        schema: the schema of both values.
    """

    __slots__ = ("_children", "_old_items", "_unchanged", "new", "old", "schema")

    def __init__(self, new: Any, old: Any, schema: Tree) -> None:
        self.new = new
        self.old = old
        self.schema = schema
        self._children: _Children = {}
        self._old_items: dict[Hashable, Any] | None = None
        self._unchanged: bool | None = None

    @property
    def unchanged(self) -> bool:
        """Both values are equal; lists of type map are compared by keys, not by order."""
        if self._unchanged is None:
            self._unchanged = self.new is self.old or self._equal()
        return self._unchanged

    def _equal(self) -> bool:
        new, old = self.new, self.old
        if isinstance(new, list) and isinstance(old, list):
            if len(new) != len(old):
                return False
            if not self._keys():
                return _identical(new, old)
            children = [self.item(index) for index in range(len(new))]
            return all(child is not None and child.unchanged for child in children)
        if isinstance(new, dict) and isinstance(old, dict):
            if len(new) != len(old):
                return False
            children = [self.field(name) for name in new]
            return all(child is not None and child.unchanged for child in children)
        return _identical(new, old)

    def field(self, name: str) -> Correlated | None:
        """Return the property `name` of both values, or None where one lacks it or the schema does not know it."""
        if name not in self._children:
            self._children[name] = self._field(name)
        return self._children[name]

    def _field(self, name: str) -> Correlated | None:
        new, old = self.new, self.old
        if not isinstance(new, dict) or not isinstance(old, dict):
            return None
        if name not in new or name not in old:
            return None
        inner = self.schema.get("properties", {}).get(name)
        if inner is None:
            inner = self.schema.get("additionalProperties")
        return Correlated(new[name], old[name], inner) if isinstance(inner, dict) else None

    def item(self, index: int) -> Correlated | None:
        """Return the element at `index` and the old element of its keys, or None where there is none."""
        if index not in self._children:
            self._children[index] = self._item(index)
        return self._children[index]

    def _item(self, index: int) -> Correlated | None:
        new, old = self.new, self.old
        inner = self.schema.get("items")
        if not isinstance(new, list) or not isinstance(old, list) or not isinstance(inner, dict):
            return None
        if not self._keys():
            return None
        if self._old_items is None:
            self._old_items = {}
            for each in old:
                key = self._key_of(each)
                if key is not None:
                    self._old_items.setdefault(key, each)
        key = self._key_of(new[index])
        before = None if key is None else self._old_items.get(key)
        return None if before is None else Correlated(new[index], before, inner)

    def _keys(self) -> list[str]:
        if self.schema.get("x-kubernetes-list-type") != "map":
            return []
        keys: list[str] = self.schema.get("x-kubernetes-list-map-keys") or []
        return keys

    def _key_of(self, item: Any) -> Hashable:
        """Return what an element is known by, or None where a key is absent or no scalar."""
        if not isinstance(item, dict):
            return None
        keys = [item.get(key) for key in self._keys()]
        if any(key is None or isinstance(key, dict | list) for key in keys):
            return None
        return tuple([(type(key).__name__, key) for key in keys])


def _identical(new: Any, old: Any) -> bool:
    """Return whether two JSON values are equal in type, too: Python takes 1, 1.0 and True for the same."""
    if type(new) is not type(old) and isinstance(new, bool | float) != isinstance(
        old, bool | float
    ):
        return False
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(_identical, new, old))
    if isinstance(new, dict) and isinstance(old, dict):
        return new.keys() == old.keys() and all(_identical(new[key], old[key]) for key in new)
    return bool(new == old) and isinstance(new, bool) == isinstance(old, bool)
