"""Trees without some fields of their types: the ways to these fields are found once, other parts are not entered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.types import Field, Kind, struct_type

__all__ = ["Marked", "marked_in", "without_marked"]

NamesOf = Callable[[str], frozenset[str]]
"""Names of the marked fields of a type, which is named without "io.k8s."."""


class Marked:
    """The marked fields of a type: fields of its own, and fields that contain such ones."""

    __slots__ = ("inside", "names")

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.inside: dict[str, tuple[Field, Marked]] = {}

    @property
    def anything(self) -> bool:
        """True if the type, or a type inside it, has a marked field."""
        return bool(self.names or self.inside)


def marked_in(type_name: str, names_of: NamesOf) -> Marked | None:
    """Return the marked fields of a type, None for none. Schemas of custom resources apart."""
    seen: dict[str, Marked] = {}
    found = _collect(type_name, names_of, seen)
    _prune(seen)
    return found if found.anything else None


def without_marked(found: Marked | None, tree: Tree) -> tuple[Tree, list[str]]:
    """A tree without the marked fields, and the places where they stood.

    The same tree when there is nothing of it.
    """
    places: list[str] = []
    if found is None or not isinstance(tree, dict):
        return tree, places
    return _stripped(found, tree, "", places), places


def _struct_of(field: Field) -> str:
    while field.element is not None:
        field = field.element
    return field.type_name if field.kind == Kind.STRUCT else ""


def _collect(type_name: str, names_of: NamesOf, seen: dict[str, Marked]) -> Marked:
    known = seen.get(type_name)
    if known is not None:
        return known
    names = names_of(type_name.removeprefix("io.k8s."))
    found = seen[type_name] = Marked(names)
    if type_name.endswith("JSONSchemaProps"):
        return found
    for name, field in struct_type(type_name).fields.items():
        inner = _struct_of(field)
        if inner and name not in names:
            found.inside[name] = field, _collect(inner, names_of, seen)
    return found


def _prune(seen: dict[str, Marked]) -> None:
    """Keep only ways that lead to a marked field."""
    leads = {name for name, found in seen.items() if found.names}
    by_part = {id(found): name for name, found in seen.items()}
    changed = True
    while changed:
        changed = False
        for name, found in seen.items():
            if name not in leads and any(
                by_part[id(inner)] in leads for _, inner in found.inside.values()
            ):
                leads.add(name)
                changed = True
    for found in seen.values():
        found.inside = {
            name: (field, inner)
            for name, (field, inner) in found.inside.items()
            if by_part[id(inner)] in leads
        }


def _stripped(found: Marked, tree: Tree, path: str, places: list[str]) -> Tree:
    out: Tree | None = None
    for key, value in tree.items():
        place = f"{path}.{key}" if path else key
        if key in found.names:
            places.append(place)
            out = dict(tree) if out is None else out
            del out[key]
            continue
        inner = found.inside.get(key)
        if inner is None:
            continue
        made = _value(inner[0], inner[1], value, place, places)
        if made is not value:
            out = dict(tree) if out is None else out
            out[key] = made
    return tree if out is None else out


def _value(field: Field, found: Marked, value: Any, place: str, places: list[str]) -> Any:
    if isinstance(value, list) and field.element is not None:
        items = [
            _value(field.element, found, item, f"{place}[{index}]", places)
            for index, item in enumerate(value)
        ]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    if not isinstance(value, dict):
        return value
    if field.kind == Kind.MAP and field.element is not None:
        element = field.element
        pairs = {
            key: _value(element, found, item, f"{place}.{key}", places)
            for key, item in value.items()
        }
        return pairs if any(pairs[key] is not value[key] for key in value) else value
    return _stripped(found, value, place, places)
