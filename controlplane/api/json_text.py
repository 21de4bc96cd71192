"""Trees as compact JSON: the bytes that `json.dumps` gives, from a faster encoder where both agree."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from controlplane.api.tree import Tree

__all__ = ["compact", "is_whole", "joined", "stored"]

_WITH_A_DOT: Final = frozenset(
    ("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "networking.k8s.io",
     "node.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io")
)  # fmt: skip
"""Built-in groups whose names have a dot, as those of all custom resources do."""


@cache
def _fast() -> Callable[[Any, bytearray], None]:
    """Return the fast encoder, loaded at its first use."""
    import msgspec

    return msgspec.json.Encoder().encode_into


def compact(tree: Any) -> bytes:
    """Any tree, with numbers as Python writes them. Halves of surrogate pairs stay what they are."""
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def is_whole(api_version: Any) -> bool:
    """Return whether objects of a version have no fractions, as built-in ones: the fast encoder may have them."""
    if type(api_version) is not str:
        return False
    group, _, rest = api_version.partition("/")
    return not rest or "." not in group or group in _WITH_A_DOT


def stored(tree: Tree) -> bytes:
    """The same bytes for an object.

    The fast encoder writes a fraction with an exponent in its own way, so it is asked only for types
    that have no fractions; what it cannot write it refuses.
    """
    found = _encoded(tree) if is_whole(tree.get("apiVersion")) else None
    return compact(tree) if found is None else found


def joined(trees: list[Any]) -> bytes:
    """The same bytes for trees that have no fractions, with commas between them."""
    found = _encoded(trees)
    return b",".join(map(compact, trees)) if found is None else found[1:-1]


def _encoded(tree: Any) -> bytes | None:
    """The bytes of the fast encoder; None where it refuses."""
    try:
        made = bytearray()
        _fast()(tree, made)
        return bytes(made)  # kept as long as it is: what shrinks in place leaves a hole
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
