"""The differences between two JSON trees, as a short list of paths and values.

A change is `[path, value]`, or `[path]` for what is gone; a path is a list of keys and indexes. Lists of
equal length are compared item by item, others are replaced. Trees share what did not change, so most of
a comparison ends at "the same object".
"""

from __future__ import annotations

from typing import Any

__all__ = ["Change", "applied", "changes"]

Change = list[Any]


def changes(old: Any, new: Any) -> list[Change]:
    """The changes that turn `old` into `new`, in the order of the new tree; [] if they are equal."""
    found: list[Change] = []
    _compare(old, new, [], found)
    return found


def _compare(old: Any, new: Any, path: list[str | int], found: list[Change]) -> None:
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in new.items():
            if key not in old:
                found.append([[*path, key], value])
            else:
                _compare(old[key], value, [*path, key], found)
        found.extend([[*path, key]] for key in old if key not in new)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (one, other) in enumerate(zip(old, new, strict=True)):
            _compare(one, other, [*path, at], found)
    elif type(old) is not type(new) or old != new:
        found.append([path, new])


def applied(tree: Any, made: list[Change]) -> Any:
    """The tree with these changes made; what did not change is shared with the old one."""
    for path, *value in made:
        tree = _with(tree, path, value)
    return tree


def _with(tree: Any, path: list[str | int], value: list[Any]) -> Any:
    if not path:
        return value[0]
    key, *rest = path
    copy: Any = dict(tree) if isinstance(tree, dict) else list(tree)
    if not rest and not value:
        del copy[key]
    else:
        copy[key] = _with(copy[key] if rest else None, rest, value)
    return copy
