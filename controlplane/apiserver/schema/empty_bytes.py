"""Byte fields without content: Go tells them from fields that are not there, JSON does not show them.

Upstream: storage compares encoded objects, and gogo/protobuf writes a slice of bytes that is empty, not nil. So an
update that leaves the field out changes the object, and its generation where a strategy compares deeply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.types import Kind, StructType

__all__ = ["EmptyBytes", "forgotten", "like", "marked", "may_be_empty", "spelled"]

_HOOKS: Final = ("webhooks", "*", "clientConfig")
_PLACES: Final[dict[str, tuple[str, ...]]] = {
    "APIService": ("spec",),
    "CertificateSigningRequest": ("status",),
    "MutatingWebhookConfiguration": _HOOKS,
    "ValidatingWebhookConfiguration": _HOOKS,
}
"""Where objects of a kind have such fields."""


class EmptyBytes(dict[str, Any]):
    """An object with byte fields, `names`, that are there without content.

    In memory only: read back from a file, the object is equal to one without the fields.
    """

    __slots__ = ("names",)

    def __init__(self, value: Tree, names: tuple[str, ...]) -> None:
        super().__init__(value)
        self.names = names

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EmptyBytes) and self.names == other.names and super().__eq__(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __copy__(self) -> EmptyBytes:
        return self

    def __deepcopy__(self, _memo: object) -> EmptyBytes:
        return self


def may_be_empty(struct: StructType) -> tuple[str, ...]:
    """Return the byte fields of a type that JSON leaves out without content.

    Those of definitions do not count: their strategy compares specs as equal with and without.
    """
    if "apiextensions" in struct.name:
        return ()
    return tuple(
        name
        for name, field in struct.fields.items()
        if field.kind == Kind.BYTES and not field.required
    )


def marked(read: Tree, value: Tree, names: tuple[str, ...]) -> Tree:
    """Return an object as it was read, with a mark for byte fields that `value` had without content."""
    before = value.names if isinstance(value, EmptyBytes) else ()
    found = tuple(
        name
        for name in names
        if name not in read and (name in before or isinstance(value.get(name), str))
    )
    if not found:
        return read
    return read if read is value and found == before else EmptyBytes(read, found)


def like(made: Tree, source: Tree) -> Tree:
    """Return an object made from another one with its marks."""
    return EmptyBytes(made, source.names) if isinstance(source, EmptyBytes) else made


def forgotten(kind: str, tree: Tree) -> Tree:
    """Return an object as JSON shows it, which is what most patches change: without marks."""
    path = _PLACES.get(kind)
    return tree if path is None else _changed(tree, path, dict)


def spelled(kind: str, tree: Tree) -> Tree:
    """Return an object with each empty byte field as a field."""
    path = _PLACES.get(kind)
    return tree if path is None else _changed(tree, path, _spelled)


def _spelled(value: EmptyBytes) -> Tree:
    return {**value, **dict.fromkeys(value.names, "")}


def _changed(value: Any, path: tuple[str, ...], change: Callable[[EmptyBytes], Tree]) -> Any:
    """Return a tree with what is marked at a place changed."""
    if not path:
        return change(value) if isinstance(value, EmptyBytes) else value
    key, rest = path[0], path[1:]
    if key == "*":
        if not isinstance(value, list):
            return value
        items = [_changed(item, rest, change) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if not isinstance(value, dict) or key not in value:
        return value
    inner = _changed(value[key], rest, change)
    return value if inner is value[key] else {**value, key: inner}
