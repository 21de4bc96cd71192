"""Parts of custom resources that their schema does not know, and those that it supplies: pruning, nulls, defaults.

Sources: apiextensions-apiserver pkg/apiserver/schema/{pruning,defaulting}.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

from controlplane.api.equality import by_value
from controlplane.api.tree import Tree
from controlplane.apiserver.schema.work import spend

__all__ = [
    "EMBEDDED",
    "INT_OR_STRING",
    "PRESERVE",
    "UNSET",
    "Former",
    "child",
    "defaulted",
    "pruned",
    "without_nulls",
]

PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
_PARTED: Final = (dict, list)
_META_FIELDS: Final = frozenset(("apiVersion", "kind", "metadata"))


def child(path: str, name: str) -> str:
    """Return the path of a property."""
    return f"{path}.{name}" if path else name


def _property(schema: Tree, name: str) -> Tree | None:
    """Return the schema of a property, or of further properties."""
    found: Tree | None = schema.get("properties", {}).get(name)
    if found is None:
        more = schema.get("additionalProperties")
        found = more if isinstance(more, dict) else None
    return found


# -- pruning -------------------------------------------------------------------------------------


def pruned(
    value: Any, schema: Tree | None, path: str, unknown: list[str], *, root: bool = False
) -> Any:
    """Return a value without the fields that its schema does not know.

    Args:
        value: the value; it is not changed.
        schema: its schema; without one, no field is known.
        path: the path of the value, for `unknown`.
        unknown: receives the paths of the fields that were left out.
        root: the value is an object of the API, whose type and metadata always stay.
    """
    if not isinstance(value, _PARTED):
        return value
    if schema is not None and schema.get(PRESERVE):
        return _specified_parts_pruned(value, schema, path, unknown, root=root)
    if isinstance(value, list):
        items = None if schema is None else schema.get("items")
        spend(len(value) * (1 + (len(path) >> 9)))
        return [
            pruned(item, items, f"{path}[{i}]", unknown) if isinstance(item, _PARTED) else item
            for i, item in enumerate(value)
        ]
    spend(1 + len(value) * (1 + (len(path) >> 9)))
    if schema is None:
        unknown += [child(path, name) for name in value]
        return {}
    embedded = root or schema.get(EMBEDDED)
    known = schema.get("properties") or {}
    # `additionalProperties: true` knows fields of any name, but nothing of what they hold.
    more = schema.get("additionalProperties", False)
    out: Tree = {}
    for name, item in value.items():
        if embedded and name in _META_FIELDS:
            out[name] = item
        elif name in known or more is not False:
            inner = known.get(name, more if isinstance(more, dict) else None)
            if isinstance(item, _PARTED):
                item = pruned(item, inner, child(path, name), unknown)
            out[name] = item
        elif path or name not in _META_FIELDS:
            unknown.append(child(path, name))
    return out


def _specified_parts_pruned(
    value: Any, schema: Tree | None, path: str, unknown: list[str], *, root: bool = False
) -> Any:
    """Return a value whose unknown fields stay, with the parts that the schema does specify pruned."""
    if schema is None or not isinstance(value, _PARTED):
        return value
    spend(1 + len(value) * (1 + (len(path) >> 9)))
    if isinstance(value, list):
        items = schema.get("items")
        return [
            _specified_parts_pruned(item, items, f"{path}[{i}]", unknown)
            for i, item in enumerate(value)
        ]
    embedded = root or schema.get(EMBEDDED)
    known = schema.get("properties") or {}
    more = schema.get("additionalProperties", False)
    out: Tree = {}
    for name, item in value.items():
        if isinstance(item, _PARTED) and not (embedded and name in _META_FIELDS):
            if name in known:
                item = pruned(item, known[name], child(path, name), unknown)
            elif more is not False:
                inner = more if isinstance(more, dict) else None
                item = pruned(item, inner, child(path, name), unknown)
        out[name] = item
    return out


# -- nulls and defaults --------------------------------------------------------------------------


def without_nulls(value: Any, schema: Tree | None) -> Any:
    """Return a value without the nulls that its schema neither allows nor replaces by a default."""
    if schema is None:
        return value
    if isinstance(value, list):
        items = schema.get("items")
        return [without_nulls(item, items) if isinstance(item, _PARTED) else item for item in value]
    if not isinstance(value, dict):
        return value
    out: Tree = {}
    for name, item in value.items():
        inner = _property(schema, name)
        if item is None and inner is not None and _refuses_null(inner):
            if inner.get("default") is not None:
                out[name] = item
        else:
            out[name] = without_nulls(item, inner) if isinstance(item, _PARTED) else item
    return out


def _refuses_null(schema: Tree) -> bool:
    return not schema.get("nullable")


def defaulted(value: Any, schema: Tree | None) -> Any:
    """Return a value with the defaults of its schema for what is missing, or is null and must not be."""
    if schema is None:
        return value
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, dict):
            return value
        return [_defaulted_part(item, items) for item in value]
    if not isinstance(value, dict):
        return value
    out = dict(value)
    properties = schema.get("properties") or {}
    spend(1 + ((len(value) + len(properties)) >> 1))
    for name, inner in properties.items():
        default = inner.get("default")
        if default is not None and (
            name not in out or (out[name] is None and _refuses_null(inner))
        ):
            out[name] = default
    more = schema.get("additionalProperties")
    for name, item in out.items():
        if name in properties:
            if isinstance(item, _PARTED):
                out[name] = defaulted(item, properties[name])
        elif isinstance(more, dict):
            out[name] = _defaulted_part(item, more)
    return out


def _defaulted_part(value: Any, schema: Tree) -> Any:
    """Return an element or a value of a map with defaults; a null that must not be becomes the default."""
    if value is None and _refuses_null(schema):
        value = schema.get("default")
    return defaulted(value, schema) if isinstance(value, _PARTED) else value


# -- old values ----------------------------------------------------------------------------------


class _Unset:
    """There is no old value to compare with."""


UNSET = _Unset()


class Former:
    """The former elements of a list, by what an element of now is known by.

    `placed`: without keys, an equal element or the one in the same place is the former one.
    """

    __slots__ = ("_keys", "_known", "_old", "_placed")

    def __init__(self, schema: Tree, old: Any, *, placed: bool = True) -> None:
        self._old: list[Any] | None = old if isinstance(old, list) else None
        keys = schema.get("x-kubernetes-list-map-keys")
        self._keys: list[str] = keys or []
        self._placed = placed
        self._known: dict[Hashable, Any] = {}
        if self._old is None:
            return
        if self._keys:
            for item in self._old:
                if isinstance(item, dict):
                    self._known.setdefault(self._key(item), item)
        elif placed:
            self._known = {by_value(item): item for item in self._old}

    def _key(self, item: Tree) -> Hashable:
        return tuple([by_value(item.get(key)) for key in self._keys])

    def of(self, item: Any, index: int) -> Any:
        """The former state of an element, or UNSET."""
        old = self._old
        if old is None:
            return UNSET
        if self._keys:
            return self._known.get(self._key(item), UNSET) if isinstance(item, dict) else UNSET
        if not self._placed:
            return UNSET
        if by_value(item) in self._known:
            return item
        return old[index] if index < len(old) else UNSET
