"""Numbers of a custom resource as they are read back from the storage, where they stand as Go writes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.codec import NO_NUMBERS

__all__ = ["stored_numbers"]

_EXPONENT = 1e21
"""From here on Go writes an exponent, and a number with one is no integer."""


def stored_numbers(tree: Tree) -> Tree:
    """Return the tree with the numbers that a later read finds; unchanged parts are shared."""
    found: Tree = _stored(tree, {})
    return found


def _inside(value: dict[Any, Any] | list[Any], known: dict[int, Any]) -> dict[Any, Any] | list[Any]:
    changed: dict[Any, Any] | list[Any] | None = None
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if type(item) in NO_NUMBERS:
            continue
        stored = _stored(item, known)
        if stored is not item:
            if changed is None:
                changed = dict(value) if isinstance(value, dict) else list(value)
            changed[key] = stored
    return value if changed is None else changed


def _stored(value: Any, known: dict[int, Any]) -> Any:
    """A value without texts of numbers: whole ones are integers, what no int64 holds is a float64.

    What is shared within the value, as copies of a patch are, is looked at once (`known`) and stays shared.
    """
    if isinstance(value, (dict, list)):
        made = known.get(id(value))
        if made is None:
            made = known[id(value)] = _inside(value, known)
        return made
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        value = float(value)
    if isinstance(value, float):
        if value.is_integer() and abs(value) < _EXPONENT:
            return int(Decimal(repr(float(value))))  # the shortest digits, and zeros
        return float(value)
    return value
