"""Changes of parts of a tree: what is unchanged stays shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.tree import Tree

__all__ = ["each", "filled", "with_spec", "in_spec", "inside"]


def filled(tree: Tree, defaults: Tree) -> Tree:
    """The tree with missing keys taken from `defaults`."""
    if defaults.keys() <= tree.keys():
        return tree
    return {**defaults, **tree}


def each(tree: Tree, key: str, change: Callable[[Any], Any]) -> Tree:
    """The tree with every element of the list at `key` changed."""
    items = tree.get(key)
    if not items:
        return tree
    changed = [change(item) for item in items]
    for new, old in zip(changed, items, strict=True):
        if new is not old:
            return {**tree, key: changed}
    return tree


def inside(tree: Tree, key: str, change: Callable[[Any], Any]) -> Tree:
    """The tree with the object at `key`, if there is one, changed."""
    part = tree.get(key)
    if part is None:
        return tree
    new = change(part)
    return tree if new is part else {**tree, key: new}


def in_spec(tree: Tree, change: Any) -> Tree:
    """The tree with its spec, if there is one, changed."""
    return inside(tree, "spec", change)


def with_spec(tree: Tree, change: Any) -> Tree:
    """The tree with its spec changed; a missing one counts as empty."""
    spec = tree.get("spec")
    if spec is None:
        spec = {}
    new = change(spec)
    return tree if new is spec and "spec" in tree else {**tree, "spec": new}
