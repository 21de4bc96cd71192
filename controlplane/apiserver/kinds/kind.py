"""A kind in one value: its strategy, the row of its table, and the fields that a selector may name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from attrs import field, frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Strategy

__all__ = ["META", "Kind", "Row", "value_at"]

Row = Callable[[Tree, int], list[Any]]
"""The cells of an object at a time in nanoseconds."""

META = {"metadata.name": "", "metadata.namespace": ""}
"""The fields that every kind in namespaces offers to field selectors."""


@lru_cache(maxsize=256)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def value_at(tree: Tree, path: str) -> str:
    """The text of the field at a dotted path, "" when absent."""
    current: Any = tree
    for part in _parts(path):
        if not isinstance(current, dict):
            return ""
        current = current.get(part)
    if current is None:
        return ""
    if type(current) is str:
        return current
    if isinstance(current, bool):
        return "true" if current else "false"
    return str(current)


@frozen(eq=False)
class Kind:
    """The rules of one kind, apart from its schema.

    `row` makes the cells of `kubectl get`; None for name and age. `selectable` are the fields that a
    selector may name, each with its text where the object lacks it; None for the metadata alone, with
    upstream's other message for a wrong name. `aliases` are other names of fields. `value` reads a field
    that does not stand at its own path. Upstream: AddFieldLabelConversionFunc in pkg/apis/*/v1/conversion.go,
    ToSelectableFields of the strategies.
    """

    strategy: Strategy = field(factory=Strategy)
    row: Row | None = None
    selectable: Mapping[str, str] | None = None
    aliases: Mapping[str, str] = field(factory=dict)
    value: Callable[[Tree, str], str] = value_at
