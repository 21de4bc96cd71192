"""One tree for all equal small parts of objects: the conditions of a thousand pods that became ready in one second.

Trees are immutable, so parts that are equal can be one, and what is decoded from them too. Which parts are worth
it is a matter of their type. Nothing observable depends on what is remembered here.
"""

from __future__ import annotations

from typing import Any, Final

from controlplane.sharing.compact import compact
from controlplane.sharing.memory import Memory

__all__ = ["ALIKE", "KEPT", "alike", "alike_list", "is_often_alike", "is_shared"]

ALIKE: Final = frozenset(
    ("ContainerState", "HostIP", "OwnerReference", "PodIP", "ResourceRequirements", "Toleration")
)
"""Types that are small, have no lists, and whose values are often equal; besides all conditions."""
Tree = dict[str, Any]

KEPT: Final = 2048
"""The number of remembered parts; the next one empties the memory."""
LONG: Final = 256
"""Parts with longer texts are not remembered."""

SHORT: Final = 16
"""Lists of more parts are not remembered."""

_known: Final[Memory[tuple[Any, ...], Tree]] = Memory("equal parts", KEPT)
_lists: Final[Memory[tuple[int, ...], list[Tree]]] = Memory("equal lists", KEPT)
"""By the identities of their parts, which they keep alive."""


def is_often_alike(name: str) -> bool:
    """Return whether a type, by its name without package, is one of those."""
    return name in ALIKE or name.endswith("Condition")


def alike(tree: Tree) -> Tree:
    """An equal part that was seen before, keys in the same order, or this one.

    All values of a field have to be of one type, as a schema has it: 1 and true are not told apart.
    """
    key = _key_of(tree)
    if key is None:
        return tree
    found = _known.known.get(key)
    return _known.keep(key, compact(tree)) if found is None else found


def alike_list(parts: list[Tree]) -> list[Tree]:
    """A list of the very same parts that was seen before, or this one.

    For lists that components make themselves, of parts that are `alike`; not for what comes from outside.
    """
    key = tuple(map(id, parts))
    found = _lists.known.get(key)
    if found is not None:
        return found
    return _lists.keep(key, parts) if len(parts) <= SHORT else parts


def is_shared(parts: list[Any]) -> bool:
    """Return whether this is such a list, which others may have, too."""
    return _lists.known.get(tuple(map(id, parts))) is parts


def _key_of(tree: Tree) -> tuple[Any, ...] | None:
    parts: list[Any] = []
    for name, value in tree.items():
        kind = type(value)
        if kind is str:
            if len(value) > LONG:
                return None
            parts += (name, value)
        elif kind is dict:
            within = _key_of(value)
            if within is None:
                return None
            parts += (name, within)
        elif value is None or kind is int or kind is bool:
            parts += (name, value)
        else:
            return None
    return tuple(parts)
