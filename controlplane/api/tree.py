"""The JSON values that the API server stores, and how to read them without surprises.

A tree is immutable by convention once it is shared: a change builds a new dict around the parts that
stay.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Tree: TypeAlias = dict[str, Any]
"""A JSON object: string keys; values are dicts, lists, strings, ints, floats, bools, None."""

EMPTY_MAP: Final[dict[str, Any]] = {}
"""The one empty map that views share for absent maps. Never written to."""


def metadata_of(tree: Tree) -> Tree:
    """The metadata object of a tree, empty when absent or null."""
    return tree.get("metadata") or EMPTY_MAP


def is_ready(tree: Tree) -> bool:
    """Return whether the condition Ready of a Pod or a Node is True."""
    conditions = (tree.get("status") or EMPTY_MAP).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


FAKE_NODE: Final = ("kwok.x-k8s.io/node", "fake")
"""Annotation of a Node of KWOK, which stages take care of and no kubelet."""


def is_fake_node(tree: Tree) -> bool:
    """Return whether a Node is one of KWOK."""
    key, value = FAKE_NODE
    return (tree["metadata"].get("annotations") or EMPTY_MAP).get(key) == value
