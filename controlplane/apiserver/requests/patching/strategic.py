"""Strategic merge patch: merging by the schema's list keys, with directives.

Upstream: apimachinery pkg/util/strategicpatch/patch.go. The result shares the unchanged parts of
the original. As upstream's, the patch is used up: directives that were obeyed and nulls that had
nothing to remove are taken out of it, and answers that quote the patch show what is left.
Errors are `PatchError`; its `code` is 400, 422, or 500 for what upstream gives no status.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from controlplane.api.equality import Seen, by_value, first_by_value
from controlplane.api.go_values import go_type, go_value
from controlplane.api.tree import Tree
from controlplane.apiserver.schema.types import Field, Kind, StructType
from controlplane.apiserver.schema.work import spend

__all__ = ["PatchError", "strategic_patch"]

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList"
_SET_ORDER = "$setElementOrder"


class PatchError(ValueError):
    """The patch cannot be applied."""

    def __init__(self, text: str, code: int = 500) -> None:
        super().__init__(text)
        self.code = code


def strategic_patch(original: Tree, patch: Tree, struct: StructType) -> Tree:
    """The original with the patch merged in, by the rules of the type. Changes the patch."""
    return _merge_map(original, patch, struct)


def _bad_type(directive: Any, patch: Any) -> PatchError:
    return PatchError(f"unknown patch type: {_as_text(directive)} in map: {go_value(patch)}")


def _as_text(value: Any) -> str:
    """A value as Go prints it where a text was expected."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_as_text(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_as_text, value))}]"
    return "%!s(<nil>)" if value is None else f"%!s({go_type(value)}={go_value(value)})"


def _no_key(item: Any, key: str) -> PatchError:
    return PatchError(f"map: {go_value(item)} does not contain declared merge key: {key}")


def _unexpected(wanted: str, value: Any) -> PatchError:
    return PatchError(f"expected a {wanted}, but received a {go_type(value)}")


def _field(struct: StructType | None, name: str) -> Field:
    if struct is None:
        raise PatchError("merging an object in json but data type is not struct, instead is: map")
    found = struct.fields.get(name)
    if found is None:
        raise PatchError(
            f'unable to find api field in struct {struct.short} for the json field "{name}"'
        )
    return found


def _struct_of(field: Field) -> StructType | None:
    """The type of a field's value, or of a list's elements; None for a map.

    What is kept as text, as a RawExtension, is a type without fields.
    """
    if field.kind == Kind.STRUCT:
        return field.struct
    if field.kind == Kind.OPAQUE and "." in field.type_name:
        return StructType(field.type_name)
    element = field.element
    if field.kind == Kind.LIST and element is not None and element.kind == Kind.STRUCT:
        return element.struct
    return None


def _strategy(field: Field) -> str:
    return next((name for name in field.strategies if name != "retainKeys"), "")


def _merge_map(original: Tree, patch: Tree, struct: StructType | None) -> Tree:
    if _DIRECTIVE in patch:
        directive = patch[_DIRECTIVE]
        if directive == "replace":
            del patch[_DIRECTIVE]
            return patch
        if directive == "delete":
            return {}
        raise _bad_type(directive, patch)
    spend(1 + len(patch) + (len(original) >> 3))
    out = original.copy()  # which shares its keys where the original does
    if any(key[:1] == "$" for key in patch):  # most maps have no directives
        out = _retain_keys(out, patch)
        _set_orders(out, patch, struct)
    for key, value in patch.items():
        deleting = key.startswith(_DELETE_FROM)
        if deleting:
            key = _named(key, _DELETE_FROM, "invalid patch format of primitive list")
        if value is None:
            out.pop(key, None)
        elif key not in out or not _same_type(out[key], value):
            if not deleting:
                _drop_nulls(value)
                kept, keep = _without_directives(value)
                if keep:
                    out[key] = kept
                else:
                    out.pop(key, None)
        elif isinstance(value, dict):
            field = _field(struct, key)
            replaced = _strategy(field) == "replace"
            out[key] = value if replaced else _merge_map(out[key], value, _struct_of(field))
        elif isinstance(value, list):
            field = _field(struct, key)
            if deleting or _strategy(field) == "merge":
                out[key] = _merge_list(
                    out[key], value, _struct_of(field), field.merge_key, deleting=deleting
                )
            else:
                out[key] = value
        else:
            out[key] = value
    return out


def _named(key: str, prefix: str, problem: str) -> str:
    """The list that a directive is about."""
    before, slash, name = key.partition("/")
    if before != prefix or not slash:
        raise PatchError(problem, 400)
    return name


def _same_type(a: Any, b: Any) -> bool:
    for kind in (dict, list, bool, str):
        if isinstance(a, kind) or isinstance(b, kind):
            return isinstance(a, kind) and isinstance(b, kind)
    return True


def _retain_keys(out: Tree, patch: Tree) -> Tree:
    if _RETAIN not in patch:
        return out
    keys = patch.pop(_RETAIN)
    kept = {key for key in keys if isinstance(key, str)} if isinstance(keys, list) else ()
    if not isinstance(keys, list) or any(
        value is not None and key not in kept and not key.startswith((_DELETE_FROM, _SET_ORDER))
        for key, value in patch.items()
    ):
        raise PatchError("invalid patch format of retainKeys", 400)
    return {key: value for key, value in out.items() if key in kept}


_BAD_ORDER = "invalid patch format of setElementOrder list"


def _set_orders(out: Tree, patch: Tree, struct: StructType | None) -> None:
    """Merge the lists that have an order directive, and take them out of the patch."""
    for key in [key for key in patch if key.startswith(_SET_ORDER)]:
        order = patch.pop(key)
        if not isinstance(order, list):
            raise _unexpected("[]interface {}", order)
        name = _named(key, _SET_ORDER, _BAD_ORDER)
        ours: Any = out.get(name)
        theirs: Any = patch.get(name)
        for here, value in ((out, ours), (patch, theirs)):
            if name in here and not isinstance(value, list):
                raise _unexpected("[]interface {}", value)
        field = _field(struct, name)
        merge_key = field.merge_key
        _check_order(theirs or [], order, merge_key)
        if theirs is None and ours is None:
            continue
        if theirs is None:
            merged = ours
        elif ours is None:
            merged, _ = _without_directives(theirs)
        elif _strategy(field) == "merge":
            merged = _merge_list(ours, theirs, _struct_of(field), merge_key)
        else:
            merged = theirs
        _check_keys(merged, order, merge_key)
        _element_type(ours or [], theirs or [])
        patch.pop(name, None)
        out[name] = _ordered(merged, order, ours or [], merge_key)


def _check_order(patch: list[Any], order: list[Any], merge_key: str) -> None:
    if not order or not patch:
        return
    wanted = [
        item
        for item in patch
        if not (merge_key and isinstance(item, dict) and item.get(_DIRECTIVE) == "delete")
    ]
    at, place = 0, 0
    while at < len(wanted) and place < len(order):
        if isinstance(wanted[at], dict) and _DIRECTIVE in wanted[at]:
            at += 1
            continue
        if _identical(wanted[at], order[place], merge_key):
            at += 1
        place += 1
    if at < len(wanted) and place >= len(order):
        raise PatchError(
            f"The order in patch list:\n{go_value(patch)}\n doesn't match $setElementOrder list:\n"
            f"{go_value(order)}\n"
        )


def _identical(left: Any, right: Any, merge_key: str) -> bool:
    if not merge_key:
        return bool(left == right)
    for item in (left, right):
        if not isinstance(item, dict):
            raise _unexpected("map[string]interface {}", item)
    for item in (left, right):
        if merge_key not in item:
            raise _no_key(item, merge_key)
    return bool(left[merge_key] == right[merge_key])


def _check_keys(merged: list[Any], order: list[Any], merge_key: str) -> None:
    """Check that the keys of items are unique, where items have them."""
    if not merge_key:
        return
    known: dict[Hashable, int] = {}
    end = next((at for at, named in enumerate(order) if not isinstance(named, dict)), len(order))
    for named in order[:end]:
        known.setdefault(by_value(named.get(merge_key)), 0)
    for item in merged:
        if not isinstance(item, dict):
            raise _unexpected("map[string]interface {}", item)
        if merge_key not in item:
            raise _no_key(item, merge_key)
        if end < len(order) and by_value(item[merge_key]) not in known:
            raise PatchError(f"value for key {end} is not a map.")


def _identity(merge_key: str) -> Callable[[Any], Any]:
    if not merge_key:
        return lambda item: item

    def key_of(item: Any) -> Any:
        if not isinstance(item, dict):
            raise _unexpected("map[string]interface {}", item)
        if merge_key not in item:
            raise _no_key(item, merge_key)
        return item[merge_key]

    return key_of


def _element_type(original: list[Any], patch: list[Any]) -> str:
    """The one type of all elements."""
    found = ""
    for item in (*original, *patch):
        kind = go_type(item)
        if found and kind != found:
            raise PatchError(f"list element types are not identical: {go_value([original, patch])}")
        if kind == "[]interface {}":
            raise PatchError("lists of lists are not supported", 422)
        found = kind
    if not found:
        raise PatchError("no elements in any of the given slices")
    return found


def _merge_list(
    original: list[Any],
    patch: list[Any],
    struct: StructType | None,
    merge_key: str,
    *,
    deleting: bool = False,
) -> list[Any]:
    if not original and not patch:
        return original
    spend(4 * (len(original) + len(patch)))
    if _element_type(original, patch) != "map[string]interface {}":
        if deleting:
            gone = Seen(patch)
            return [item for item in original if item not in gone]
        seen = Seen()
        merged = [item for item in (*original, *patch) if not seen.again(item)]
        return _ordered(merged, patch, original, "")
    if not merge_key:
        raise PatchError(
            f"cannot merge lists without merge key for {'map' if struct is None else 'struct'}"
        )
    replace = False
    deleted: list[Any] = []
    plain: list[Tree] = []
    for item in patch:
        if _DIRECTIVE not in item:
            plain.append(item)
            continue
        directive = item[_DIRECTIVE]
        if directive == "delete":
            if merge_key not in item:
                raise _no_key(item, merge_key)
            deleted.append(item[merge_key])
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise PatchError("merging lists cannot yet be specified in the patch")
        else:
            raise _bad_type(directive, item)
    if replace:
        return plain
    gone = Seen(deleted)
    remaining = [ours for ours in original if ours.get(merge_key) not in gone]
    merged = list(remaining)
    places: dict[Hashable, int] = {}
    for index, ours in enumerate(merged):
        if merge_key in ours:
            places.setdefault(by_value(ours[merge_key]), index)
    for item in plain:
        if merge_key not in item:
            raise _no_key(item, merge_key)
        index = places.setdefault(by_value(item[merge_key]), len(merged))
        if index < len(merged):
            merged[index] = _merge_map(merged[index], item, struct)
        else:
            merged.append(item)  # as it stands: directives inside are unknown fields
    _check_keys(merged, plain, merge_key)
    return _ordered(merged, plain, remaining, merge_key)


def _ordered(merged: list[Any], order: list[Any], server: list[Any], merge_key: str) -> list[Any]:
    """Items named in `order` in that order; the others keep their place relative to them."""
    identity = _identity(merge_key)
    named = [identity(item) for item in order]
    if [identity(item) for item in merged] == named:
        return merged
    wanted = first_by_value(named)
    before = first_by_value(identity(item) for item in server)

    def place(where: dict[Hashable, int], item: Any) -> int:
        return where.get(by_value(identity(item)), len(server) + len(named))

    chosen = sorted(
        (item for item in merged if by_value(identity(item)) in wanted),
        key=lambda item: place(wanted, item),
    )
    others = sorted(
        (item for item in merged if by_value(identity(item)) not in wanted),
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
            a = before.get(by_value(identity(others[left])))
            b = before.get(by_value(identity(chosen[right])))
            if a is not None and b is not None and a < b:
                result.append(others[left])
                left += 1
            else:
                result.append(chosen[right])
                right += 1
    return result


def _drop_nulls(value: Any) -> None:
    """Take nulls out of what the object did not have: there is nothing to remove."""
    if isinstance(value, dict):
        spend(len(value))
        for key in [key for key, item in value.items() if item is None]:
            del value[key]
        for item in value.values():
            _drop_nulls(item)
    elif isinstance(value, list):
        spend(len(value))
        for item in value:
            _drop_nulls(item)


def _without_directives(value: Any) -> tuple[Any, bool]:
    """A value that the object did not have, without the maps that only direct; False: it is one."""
    if isinstance(value, dict):
        if _DIRECTIVE in value:
            return None, False
        for key in list(value):
            kept, keep = _without_directives(value[key])
            if keep:
                value[key] = kept
            else:
                del value[key]
        return value, True
    if isinstance(value, list):
        made = [_without_directives(item) for item in value]
        return [item for item, keep in made if keep], True
    return value, True
