"""The order in which upstream writes an object's fields: that of its Go structs, maps sorted.

Nothing depends on it but texts: what a client prints of a raw answer, and the error messages that
quote an object. Which field comes when is package data, read from the types of Kubernetes' API.
Objects of custom resources are maps throughout, so their keys are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.types import (
    Field,
    Kind,
    StructType,
    load_data,
    struct_type,
)
from controlplane.sharing.alike import alike, is_often_alike
from controlplane.sharing.memory import Memory

__all__ = ["in_order", "sorted_keys"]


class _Plan:
    """Rank of each field of a struct, and the plans of the structs inside; no ranks for a map."""

    __slots__ = ("known", "often_alike", "parts", "ranks", "values")

    def __init__(self, ranks: dict[str, int] | None, parts: dict[str, _Plan]) -> None:
        self.ranks = ranks
        self.parts = parts
        self.values: _Plan | None = None
        self.often_alike = False
        """Equal values are stored in memory once."""
        self.known: dict[tuple[str, ...], _Look] = {}
        """The results for keys in this order."""

    def look(self, keys: tuple[str, ...]) -> _Look:
        """Return which of a struct's keys have parts, and the order for all of them, None if they are in order."""
        ranks = self.ranks or {}
        order = tuple(sorted(keys, key=lambda key: ranks.get(key, len(ranks))))
        parted = tuple([(key, self.parts[key]) for key in keys if key in self.parts])
        found = parted, None if order == keys else order
        if len(self.known) < _KEPT_LOOKS and len(keys) <= len(ranks):
            self.known[keys] = found
        return found


_Look = tuple[tuple[tuple[str, _Plan], ...], tuple[str, ...] | None]
_KEPT_LOOKS = 64
"""The number of orders of keys that are remembered for each struct; few structs have more than some."""

_PLANS: dict[str, _Plan] = {}


def _plan(struct: StructType) -> _Plan:
    found = _PLANS.get(struct.name)
    if found is None:
        told = _order().get(struct.name)
        names = told.split(" ") if told else sorted(struct.fields)
        found = _Plan({name: rank for rank, name in enumerate(names)}, {})
        found.often_alike = is_often_alike(struct.short)
        _PLANS[struct.name] = found  # before its parts: types may contain themselves
        for name, field in struct.fields.items():
            inner = _plan_of(field)
            if inner is not None:
                found.parts[name] = inner
    return found


@cache
def _order() -> dict[str, str]:
    order: dict[str, str] = load_data("field_order")["order"]
    return order


def _plan_of(field: Field) -> _Plan | None:
    """Return the plan for ordering a field's values; None for values without keys or in an order of their own."""
    if field.kind == Kind.STRUCT:
        return _plan(struct_type(field.type_name))
    if field.element is None:
        return None
    if field.kind == Kind.LIST:
        return _plan_of(field.element)
    found = _Plan(None, {})
    found.values = _plan_of(field.element)
    return found


def in_order(type_name: str, tree: Tree, old: Tree | None = None) -> Tree:
    """The object in upstream's order; parts that are in order, or are the old one's, are shared."""
    spec = tree.get("spec")
    if isinstance(spec, dict) and (old is None or spec is not old.get("spec")):
        # Objects made from one template share their spec; so do they when it is in order.
        known = _SPECS.known.get((type_name, id(spec)))
        if known is None:
            plan = _plan(struct_type(type_name)).parts.get("spec")
            made = spec if plan is None else _ordered(spec, plan, (old or {}).get("spec"))
            known = _SPECS.keep((type_name, id(spec)), (spec, made))
        if known[1] is not spec:
            tree = {**tree, "spec": known[1]}
        old = {**(old or {}), "spec": known[1]}
    ordered: Tree = _ordered(tree, _plan(struct_type(type_name)), old)
    return ordered


_SPECS: Final[Memory[tuple[str, int], tuple[Tree, Tree]]] = Memory("specs in order", 64)
"""By identity: a spec, which is kept so that its id stays its own, and the same in order."""


def _ordered(value: Any, plan: _Plan, old: Any) -> Any:
    if value is old:
        return value
    if isinstance(value, list):
        olds = old if isinstance(old, list) else ()
        items = [
            _ordered(item, plan, olds[index] if index < len(olds) else None)
            for index, item in enumerate(value)
        ]
        same = all(a is b for a, b in zip(items, value, strict=True))
        return value if same else items
    if not isinstance(value, dict):
        return value
    was = old if isinstance(old, dict) else {}
    return _map(value, plan, was)


def _map(value: Tree, plan: _Plan, was: Tree) -> Tree:
    keys = tuple(value)
    within: Sequence[tuple[str, _Plan]]
    order: Sequence[str] | None
    if plan.ranks is None:
        inner, order = plan.values, sorted(keys)
        within = [(key, inner) for key in keys] if inner is not None else ()
        if order == list(keys):
            order = None
    else:
        within, order = plan.known.get(keys) or plan.look(keys)
    changed: Tree | None = None
    for key, inner in within:
        item, before = value[key], was.get(key)
        if item is not before:
            made = _ordered(item, inner, before)
            if made is not item:
                changed = changed if changed is not None else dict(value)
                changed[key] = made
    result = value if changed is None else changed
    if order is None:
        return result
    ordered = {key: result[key] for key in order}
    return alike(ordered) if plan.often_alike else ordered


def sorted_keys(value: Any, old: Any = None) -> Any:
    """Maps with their keys sorted, at every level; parts that are sorted or the old one's are shared."""
    if value is old:
        return value
    if isinstance(value, list):
        olds = old if isinstance(old, list) else ()
        items = [
            sorted_keys(item, olds[index] if index < len(olds) else None)
            for index, item in enumerate(value)
        ]
        same = all(a is b for a, b in zip(items, value, strict=True))
        return value if same else items
    if not isinstance(value, dict):
        return value
    was = old if isinstance(old, dict) else {}
    keys = sorted(value)
    made = {key: sorted_keys(value[key], was.get(key)) for key in keys}
    if keys == list(value) and all(made[key] is value[key] for key in keys):
        return value
    return made
