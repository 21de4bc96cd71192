"""Strategic merge patch: merging by the schema's list keys, with directives.

Upstream: apimachinery pkg/util/strategicpatch/patch.go. The result shares the unchanged parts of
the original. Errors are `PatchError`; `bad_request` tells those that upstream answers with 400
(the rest is answered with 500).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.requests.patching.go_text import go_value
from controlplane.apiserver.schema.types import Field, Kind, StructType

__all__ = ["PatchError", "strategic_patch"]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_SET_ORDER = "$setElementOrder/"


class PatchError(ValueError):
    """The patch cannot be applied."""

    def __init__(self, text: str, *, bad_request: bool = False) -> None:
        super().__init__(text)
        self.bad_request = bad_request


def strategic_patch(original: Tree, patch: Tree, struct: StructType) -> Tree:
    """The original with the patch merged in, by the rules of the type."""
    return _merge_map(original, patch, struct)


def _bad_type(directive: Any, patch: Any) -> PatchError:
    return PatchError(f"unknown patch type: {go_value(directive)} in map: {go_value(patch)}")


def _no_key(item: Any, key: str) -> PatchError:
    return PatchError(f"map: {go_value(item)} does not contain declared merge key: {key}")


def _field(struct: StructType | None, name: str) -> Field | None:
    return struct.fields.get(name) if struct is not None else None


def _struct_of(field: Field | None) -> StructType | None:
    """The type of a field's value, or of its elements."""
    if field is None:
        return None
    if field.kind == Kind.STRUCT:
        return field.struct
    if field.element is not None and field.element.kind == Kind.STRUCT:
        return field.element.struct
    return None


def _strategy(field: Field | None) -> str:
    strategies = field.strategies if field is not None else ()
    return next((name for name in strategies if name != "retainKeys"), "")


def _merge_map(original: Tree, patch: Tree, struct: StructType | None) -> Tree:
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        if directive == "delete":
            return {}
        raise _bad_type(directive, patch)
    out = dict(original)
    directives = any(key[:1] == "$" for key in patch)  # most maps have none
    if directives:
        patch = dict(patch)
        out = _retain_keys(out, patch)
        _set_orders(out, patch, struct)
    for key, value in patch.items():
        delete_list = directives and key.startswith(_DELETE_FROM)
        if delete_list:
            key = key[len(_DELETE_FROM) :]
        if value is None:
            out.pop(key, None)
            continue
        if key not in out or not _same_type(out[key], value):
            if not delete_list:
                kept, keep = _drop_directives(_without_nulls(value))
                if keep:
                    out[key] = kept
                else:
                    out.pop(key, None)
            continue
        field = _field(struct, key)
        if isinstance(value, dict):
            if _strategy(field) == "replace":
                out[key] = value
            else:
                inner = None if field is not None and field.kind == Kind.MAP else _struct_of(field)
                out[key] = _merge_map(out[key], value, inner)
        elif isinstance(value, list):
            if _strategy(field) == "merge":
                merge_key = field.merge_key if field is not None else ""
                out[key] = _merge_list(out[key], value, _struct_of(field), merge_key,
                                       delete_list=delete_list)  # fmt: skip
            else:
                out[key] = value
        else:
            out[key] = value
    return out


def _same_type(a: Any, b: Any) -> bool:
    for kind in (dict, list, bool, str):
        if isinstance(a, kind) or isinstance(b, kind):
            return isinstance(a, kind) and isinstance(b, kind)
    return True


def _retain_keys(out: Tree, patch: Tree) -> Tree:
    if _RETAIN not in patch:
        return out
    keys = patch.pop(_RETAIN)
    if not isinstance(keys, list) or any(
        key not in keys and not key.startswith((_DELETE_FROM, _SET_ORDER)) for key in patch
    ):
        raise PatchError("invalid patch format of retainKeys", bad_request=True)
    return {key: value for key, value in out.items() if key in keys}


def _set_orders(out: Tree, patch: Tree, struct: StructType | None) -> None:
    """Merge the lists that have an order directive, and take them out of the patch."""
    for key in [key for key in patch if key.startswith(_SET_ORDER)]:
        order = patch.pop(key)
        name = key[len(_SET_ORDER) :]
        if not isinstance(order, list):
            raise PatchError("invalid patch format of setElementOrder list", bad_request=True)
        field = _field(struct, name)
        merge_key = field.merge_key if field is not None else ""
        ours, theirs = out.get(name), patch.get(name)
        if theirs is None and ours is None:
            continue
        if theirs is not None:
            if not isinstance(theirs, list):
                raise PatchError("invalid patch format of setElementOrder list", bad_request=True)
            _check_order(theirs, order, merge_key)
        if isinstance(ours, list) and theirs is not None:
            if _strategy(field) == "merge":
                merged = _merge_list(ours, theirs, _struct_of(field), merge_key)
            else:
                merged = theirs
        elif theirs is not None:
            merged = _drop_directives(_without_nulls(theirs))[0]
        else:
            merged = ours if isinstance(ours, list) else []
        patch.pop(name, None)
        server = ours if isinstance(ours, list) else []
        out[name] = _ordered(merged, order, server, merge_key)


def _check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    if not order:
        return
    identity = _identity(merge_key)
    wanted = [
        item for item in patch
        if not (merge_key and isinstance(item, dict) and item.get(_DIRECTIVE) == "delete")
    ]  # fmt: skip
    at = 0
    for item in order:
        if at < len(wanted) and identity(wanted[at]) == identity(item):
            at += 1
    if at < len(wanted):
        raise PatchError(
            f"The order in patch list:\n{go_value(patch)}\n doesn't match $setElementOrder list:\n"
            f"{go_value(order)}\n"
        )


def _identity(merge_key: str) -> Callable[[Any], Any]:
    if not merge_key:
        return lambda item: item

    def key_of(item: Any) -> Any:
        if not isinstance(item, dict) or merge_key not in item:
            raise _no_key(item, merge_key)
        return item[merge_key]

    return key_of


def _merge_list(
    original: list[Any],
    patch: list[Any],
    struct: StructType | None,
    merge_key: str,
    *,
    delete_list: bool = False,
) -> list[Any]:
    if not original and not patch:
        return original
    kinds = {type(item) if isinstance(item, dict | list) else str for item in (*original, *patch)}
    if len(kinds) > 1:
        raise PatchError(f"list element types are not identical: {go_value([original, patch])}")
    if kinds != {dict}:
        if delete_list:
            return [item for item in original if item not in patch]
        merged = []
        for item in (*original, *patch):
            if item not in merged:
                merged.append(item)
        return _ordered(merged, patch, original, "")
    if not merge_key:
        raise PatchError(f"cannot merge lists without merge key for {go_value(patch)}")
    replace = False
    remaining = list(original)
    plain: list[Tree] = []
    for item in patch:
        if _DIRECTIVE not in item:
            plain.append(item)
            continue
        directive = item[_DIRECTIVE]
        if directive == "delete":
            if merge_key not in item:
                raise _no_key(item, merge_key)
            remaining = [ours for ours in remaining if ours.get(merge_key) != item[merge_key]]
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch")
        else:
            raise _bad_type(directive, item)
    if replace:
        return plain
    merged = list(remaining)
    for item in plain:
        if merge_key not in item:
            raise _no_key(item, merge_key)
        for index, ours in enumerate(merged):
            if ours.get(merge_key) == item[merge_key]:
                merged[index] = _merge_map(ours, item, struct)
                break
        else:
            merged.append(item)  # as it stands: directives inside are unknown fields
    return _ordered(merged, plain, remaining, merge_key)


def _ordered(merged: list[Any], order: list[Any], server: list[Any], merge_key: str) -> list[Any]:
    """Items named in `order` in that order; the others keep their place relative to them."""
    identity = _identity(merge_key)
    named = [identity(item) for item in order]
    if [identity(item) for item in merged] == named:
        return merged
    before = [identity(item) for item in server]

    def place(where: list[Any], item: Any) -> int:
        found = identity(item)
        return where.index(found) if found in where else len(where)

    chosen = sorted(
        (item for item in merged if identity(item) in named), key=lambda item: place(named, item)
    )
    others = sorted(
        (item for item in merged if identity(item) not in named),
        key=lambda item: place(before, item),
    )
    result = []
    left, right = 0, 0
    while left < len(others) or right < len(chosen):
        if left == len(others):
            result.append(chosen[right])
            right += 1
        elif right == len(chosen):
            result.append(others[left])
            left += 1
        else:
            a, b = identity(others[left]), identity(chosen[right])
            if a in before and b in before and before.index(a) < before.index(b):
                result.append(others[left])
                left += 1
            else:
                result.append(chosen[right])
                right += 1
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _drop_directives(value: Any) -> tuple[Any, bool]:
    """A value that the object did not have, without directives; False if it is one itself and goes.

    Upstream: strategicpatch, removeDirectives.
    """
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        out = {}
        for key, item in value.items():
            if key == _RETAIN or key.startswith((_DELETE_FROM, _SET_ORDER)):
                continue
            kept, keep = _drop_directives(item)
            if keep:
                out[key] = kept
        return out, True
    if isinstance(value, list):
        made = [_drop_directives(item) for item in value]
        return [item for item, keep in made if keep], True
    return value, True
