"""Paths of the fields that a write changed: for the log, not for any decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

__all__ = ["changed_fields"]

MOST: Final = 32
"""The number of paths that are logged."""
DEEPEST: Final = 6
_KEYS: Final = ("name", "type", "uid", "key", "containerPort", "port", "ip")
"""The keys that identify the items of a list, if all of them have one."""
_TOLD_BY_ITEM: Final = "metadata.finalizers"
"""Lists of names of which each one that came (+) or went (-) is reported."""
_NOISE: Final = frozenset(
    ("metadata.resourceVersion", "metadata.managedFields", "metadata.generation")
)


def changed_fields(old: Any, new: Any) -> list[str]:
    """Paths such as `spec.replicas` and `status.conditions[Ready].status`, at most `MOST` of them.

    Of finalizers each one that came or went, as `metadata.finalizers[-kubernetes]`. Deeper than `DEEPEST` the
    path of the value around it is returned.
    """
    found: list[str] = []
    for path in _differences(old, new, "", 0):
        if path not in _NOISE:
            found.append(path)
            if len(found) == MOST:
                break
    return found


def _differences(old: Any, new: Any, path: str, depth: int) -> Iterator[str]:
    if old is new or old == new:
        return
    if path == _TOLD_BY_ITEM:
        yield from _items(old, new, path)
        return
    if depth < DEEPEST and isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(old.get(key), new.get(key), below, depth + 1)
        return
    if depth < DEEPEST and isinstance(old, list) and isinstance(new, list):
        key = _key_of(old, new)
        if key:
            before, after = ({item[key]: item for item in items} for items in (old, new))
            for name in dict.fromkeys((*before, *after)):
                yield from _differences(
                    before.get(name), after.get(name), f"{path}[{name}]", depth + 1
                )
            return
    yield path


def _items(old: Any, new: Any, path: str) -> Iterator[str]:
    """The names that came or went; the path alone if it is only their order, or no names at all."""
    before, after = (
        [each for each in value or () if isinstance(each, str)] for value in (old, new)
    )
    gone = [f"{path}[-{name}]" for name in dict.fromkeys(before) if name not in after]
    come = [f"{path}[+{name}]" for name in dict.fromkeys(after) if name not in before]
    yield from (*gone, *come) if gone or come else (path,)


def _key_of(*lists: list[Any]) -> str:
    """The key by which all items of these lists are distinguished, "" if there is none."""
    items = [item for each in lists for item in each]
    for key in _KEYS:
        if items and all(isinstance(item, dict) and _is_plain(item.get(key)) for item in items):
            if all(len({item[key] for item in each}) == len(each) for each in lists):
                return key
    return ""


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, int)) and not isinstance(value, bool)
