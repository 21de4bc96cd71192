"""Strategic merge of patches that ask for nothing unusual: what components of this process send all day.

The answer is `strategic_patch`'s, with less work: the patch is neither copied nor used up, maps that it does not change
stay the same object, and lists that are merged by key in a given order are merged once for all objects that share them,
as the conditions of pods do that became ready in one second. Whatever else a patch may ask for is `UnusualError`.
"""

from __future__ import annotations

from typing import Any, Final

from controlplane.api.tree import Tree
from controlplane.apiserver.requests.patching.strategic import PatchError, strategic_patch
from controlplane.apiserver.schema.types import Kind, StructType
from controlplane.apiserver.schema.work import spend
from controlplane.sharing.alike import alike_list, is_shared
from controlplane.sharing.memory import Memory

__all__ = ["UnusualError", "plain_merge"]

_SET_ORDER: Final = "$setElementOrder/"
_SMALL: Final = 1 << 62
"""Integers below it are plain numbers in every encoding."""
KEPT: Final = 256
"""The number of merged lists that are remembered; the next one clears them all."""

_Known = tuple[Any, Any, Any, list[Any]]
_merged: Final[Memory[tuple[int, int, int, str], _Known]] = Memory("merged lists", KEPT)
"""By the identity of both lists and of the order, which an entry keeps alive, and by the field's type."""


class UnusualError(Exception):
    """The patch has more in it than is merged here, or a mistake; `strategic_patch` knows."""


def plain_merge(original: Tree, patch: Tree, struct: StructType) -> Tree:
    """The original with the patch merged in; shares what it can with both. UnusualError."""
    spend(1 + len(patch) + (len(original) >> 3))
    out: Tree | None = None
    ordered: tuple[str, ...] = ()
    for key, value in patch.items():
        if key[:1] == "$":
            if not key.startswith(_SET_ORDER):
                raise UnusualError
            name = key[len(_SET_ORDER) :]
            ours, theirs = original.get(name), patch.get(name)
            if type(ours) is not list or type(theirs) is not list or type(value) is not list:
                raise UnusualError
            if out is None:
                out = original.copy()
            out[name] = _merge_lists(name, ours, theirs, value, struct)
            ordered += (name,)
    for key, value in patch.items():
        if key[:1] == "$" or key in ordered:
            continue
        old = original.get(key)
        kind = type(value)
        if kind is dict:
            if type(old) is dict:
                found = struct.fields.get(key)
                if found is None or found.kind != Kind.STRUCT or found.strategies:
                    raise UnusualError
                value = plain_merge(old, value, found.struct)
                if value is old:
                    continue
            elif old is not None:
                raise UnusualError
            else:
                _check_new(value)
        elif kind is list:
            if type(old) is list:
                found = struct.fields.get(key)
                if found is None or found.strategies:
                    raise UnusualError
            elif old is not None:
                raise UnusualError
            _check_new(value)
        elif value is None:
            if key not in original:
                continue
            if out is None:
                out = original.copy()
            del out[key]
            continue
        elif kind is str:
            if value == old:
                continue
        elif kind is not bool and (kind is not int or not -_SMALL < value < _SMALL):
            raise UnusualError
        if out is None:
            out = original.copy()
        out[key] = value
    return original if out is None else out


def _check_new(value: Any) -> None:
    """Check that a value needs no merging: no directives, no nulls, no numbers but small integers."""
    kind = type(value)
    if kind is dict:
        spend(len(value))
        for key, item in value.items():
            if key[:1] == "$":
                raise UnusualError
            if type(item) is not str:
                _check_new(item)
    elif kind is list:
        spend(len(value))
        for item in value:
            if type(item) is not str:
                _check_new(item)
    elif kind is not str and kind is not bool and (kind is not int or not -_SMALL < value < _SMALL):
        raise UnusualError


def _merge_lists(
    name: str, ours: list[Any], theirs: list[Any], order: list[Any], struct: StructType
) -> list[Any]:
    """A list merged by its key and put in order. The same lists give the same one."""
    key = (id(ours), id(theirs), id(order), struct.name)
    known = _merged.known.get(key)
    if known is not None:
        return known[3]
    patch = {f"{_SET_ORDER}{name}": _copied(order), name: _copied(theirs)}
    try:
        merged: list[Any] = strategic_patch({name: ours}, patch, struct)[name]
    except PatchError:
        raise UnusualError from None
    if is_shared(ours) and is_shared(theirs):
        merged = alike_list(merged)
        _merged.keep(key, (ours, theirs, order, merged))
    return merged


def _copied(value: Any) -> Any:
    """A copy to be used up, of values that every patch may have."""
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) is str else _copied(item) for key, item in value.items()}
    if kind is list:
        return [_copied(item) for item in value]
    if kind is float or (kind is int and not -_SMALL < value < _SMALL):
        raise UnusualError
    return value
