"""Sets of field paths: from objects, from differences, and as FieldsV1.

A path is a tuple of elements in FieldsV1's own notation: `f:name`, `k:{"name":"x"}`, `v:"x"`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any, Final

from attrs import define, field

from controlplane.api.go_values import HTML_ESCAPES, go_value
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.schema import work
from controlplane.apiserver.schema.types import DEDUCED, Field, Kind, StructType
from controlplane.apiserver.schema.work import spend
from controlplane.sharing.memory import IdentityCache, Memory

__all__ = [
    "Difference",
    "Path",
    "Paths",
    "compare",
    "from_fields_v1",
    "granular",
    "has_parts",
    "in_set_order",
    "item_keys",
    "paths_of",
    "shown",
    "stripped",
    "to_fields_v1",
]

Path = tuple[str, ...]
Paths = frozenset[Path]

_META = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)
_STRIPPED: Paths = frozenset(
    [(), ("f:apiVersion",), ("f:kind",), ("f:metadata",)]
    + [("f:metadata", f"f:{name}") for name in _META]
)


def stripped(paths: Paths) -> Paths:
    """Return the paths without those that are never owned."""
    return paths - _STRIPPED


def to_fields_v1(paths: Paths) -> Tree:
    """The nested form; a path that has longer ones below it is marked with a dot.

    Objects of one shape have the same paths, and share one form.
    """
    spend(_per_path(paths))
    known = _NESTED.known.get(paths)
    if known is None:
        known = _nested(paths)
        if len(paths) <= _REMEMBERED:
            _NESTED.keep(paths, known)
            _PATHS.put(known, (paths, _steps(known, 0)))
    return known


_REMEMBERED: Final = 256
"""The number of paths up to which a form is remembered: few objects have more."""
_NESTED: Final[Memory[Paths, Tree]] = Memory("nested field sets")
"""The nested forms that were made last."""
_PATHS: Final[IdentityCache[tuple[Paths, int]]] = IdentityCache("paths of field sets")
"""The paths of nested forms that were made or read last, and the steps that reading one takes."""


def _nested(paths: Paths) -> Tree:
    """Return the nested form; a node is made only for a path that others lead through."""
    root: Tree = {".": _LEAF} if () in paths and len(paths) > 1 else {}
    nodes = [root]  # of the beginnings of the last path, itself left out
    last: Path = ()
    for path in sorted(paths - {()}):
        if len(path) == len(last) and path[:-1] == last[:-1]:  # most paths: beside the last one
            nodes[-1][path[-1]] = _LEAF
            last = path
            continue
        at = 0
        for ours, theirs in zip(path, last, strict=False):
            if ours != theirs:
                break
            at += 1
        if last and at == len(last):  # the last path is owned, and led through
            node: Tree = {".": _LEAF}
            nodes[-1][last[-1]] = node
            nodes.append(node)
        else:
            del nodes[at + 1 :]
        for element in path[at:-1]:
            below: Tree = {}
            nodes[-1][element] = below
            nodes.append(below)
        nodes[-1][path[-1]] = _LEAF
        last = path
    return _settled(root) if len(paths) <= _REMEMBERED else root


def _ordered(node: Tree) -> Tree:
    """Return a node whose items stand by their keys' values: numbers as such, before texts."""
    names = reversed(node)
    last = next(names)
    if last[0] not in "kv" or next(names, ".")[0] != last[0]:
        return node  # most nodes: fields stand by their names already
    return dict(sorted(node.items(), key=_rank))


def _rank(entry: tuple[str, Tree]) -> tuple[str, list[Any]]:
    prefix, _, text = entry[0].partition(":")
    if prefix not in ("k", "v"):
        return prefix, [entry[0]]
    value = json.loads(text)
    if not isinstance(value, dict):
        return prefix, [_value_rank(value)]
    return prefix, [(name, _value_rank(part)) for name, part in sorted(value.items())]


def _value_rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, str):
        return 1, value
    if isinstance(value, bool):
        return 2, value
    return (0, value) if isinstance(value, int | float) else (3, str(value))


_LEAF: Final[Tree] = {}
_SETTLED: Final[Memory[tuple[tuple[str, int], ...], Tree]] = Memory("parts of field sets", 4096)
"""Parts of forms by their keys and the identity of what stands there, which they keep alive."""


def _settled(node: Tree) -> Tree:
    """A fresh form whose parts stand in memory once: pods differ in their addresses, and in nothing else."""
    if not node:
        return _LEAF
    for element, child in node.items():
        node[element] = _settled(child)
    node = _ordered(node)
    key = tuple([(element, id(child)) for element, child in node.items()])
    return _SETTLED.shared(key, node)


def _per_path(paths: Paths) -> int:
    """Steps for all paths; long ones count more."""
    return sum(map(len, paths))


def from_fields_v1(tree: Tree) -> Paths:
    """The paths of a nested form. ValueError if it is none."""
    known = _PATHS.get(tree)
    if known is not None:
        paths, steps = known
        spend(steps)
        return paths
    found: list[Path] = []
    steps = 0

    def walk(node: Tree, path: Path) -> None:
        nonlocal steps
        taken = len(node) * (1 + len(path) // 8)
        steps += taken
        spend(taken)
        for element, child in node.items():
            if element == ".":
                found.append(path)
            elif child is None or child == {}:
                found.append((*path, element))
            elif not isinstance(child, dict):
                raise ValueError(f"{element}: expected an object")
            else:
                walk(child, (*path, element))

    if not isinstance(tree, dict):
        raise ValueError("expected an object")  # noqa: TRY004 - data, not a caller's mistake
    walk(tree, ())
    paths = frozenset(found)
    if len(found) <= _REMEMBERED:
        _PATHS.put(tree, (paths, steps))
    return paths


def _steps(node: Tree, depth: int) -> int:
    """The steps that reading a nested form takes."""
    own = len(node) * (1 + depth // 8)
    return own + sum(_steps(child, depth + 1) for child in node.values() if child)


NO_KEY: Final = "k:{}"
"""The element of an item that has none of the keys of its list."""


def item_keys(found: Field, items: list[Any]) -> list[str]:
    """The elements that name the items of a list: their keys, with schema defaults, or their values."""
    if found.list_type == "set":
        return ["v:" + _json(item) for item in items]
    element = found.element
    struct = element.struct if element is not None and element.kind == Kind.STRUCT else None
    fields = struct.fields if struct is not None else {}
    parts = [
        (name, f"{_json(name)}:", fields[name].default if name in fields else None)
        for name in sorted(found.list_keys)
    ]
    out = []
    for item in items:
        if isinstance(item, dict):
            keys = []
            for name, start, default in parts:
                value = item.get(name, default)
                if value is None:
                    value = default
                if value is not None:
                    keys.append(start + _json(value))
            out.append("k:{" + ",".join(keys) + "}")
        else:
            out.append("v:" + _json(item))
    return out


_quoted = json.encoder.encode_basestring
_encoded = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def _json(value: Any) -> str:
    """Compact JSON as Go writes it; most keys are texts and whole numbers."""
    kind = type(value)
    if kind is int:
        return str(value)
    text = _quoted(value) if kind is str else _encoded(value)
    return text.translate(HTML_ESCAPES) if _HTML.search(text) else text


_HTML = re.compile("[<>&\u2028\u2029]")


def granular(found: Field | None) -> bool:
    """Return whether managers own parts of the value rather than all of it."""
    if found is None:
        return False
    if found.kind == Kind.STRUCT:
        struct = found.struct
        return struct.fields != {} and (found.map_type or struct.map_type) != "atomic"
    if found.map_type == "atomic":
        return False
    if found.kind == Kind.MAP:
        return True
    return found.kind == Kind.LIST and found.list_type in ("map", "set")


def has_parts(known: Field | None, value: Any) -> bool:
    """Return whether owners hold parts of this value, which a type that is deduced leaves to the value."""
    return granular(known) and (known is not DEDUCED or isinstance(value, dict))


def paths_of(tree: Tree, struct: StructType) -> Paths:
    """Return the paths that an applied configuration claims."""
    found: list[Path] = []
    _collect_struct(tree, struct, (), found)
    return frozenset(found)


def _collect_struct(tree: Tree, struct: StructType, path: Path, out: list[Path]) -> None:
    spend(len(tree) * (1 + len(path) // 8))
    fields = struct.fields
    for key, value in tree.items():
        place = (*path, f"f:{key}")
        if type(value) in _SCALARS:
            out.append(place)
            continue
        known = fields.get(key)
        if known is None and struct.open:
            out.append(place)
            known = DEDUCED
        if value is None or value == {}:
            out.append(place)
            if value is None or known is None or not granular(known):
                continue
        if known is None:
            out.append(place)
            continue
        _collect(value, known, place, out)


_SCALARS = frozenset((str, int, bool))
"""The types without parts."""


def _collect(value: Any, known: Field, path: Path, out: list[Path]) -> None:
    fits = isinstance(value, list if known.kind == Kind.LIST else dict)
    if not fits or not granular(known):
        out.append(path)
    elif known.kind == Kind.STRUCT:
        _collect_struct(value, known.struct, path, out)
    elif known.kind == Kind.MAP:
        spend(len(value) * (2 + len(path) // 8))
        element = known.element
        parted = granular(element)
        for key, item in value.items():
            place = (*path, f"f:{key}")
            out.append(place)
            if parted and item:
                assert element is not None
                _collect(item, element, place, out)
    else:
        spend(len(value) * (3 + len(path) // 8))
        element = known.element
        struct = element.struct if element is not None and granular(element) else None
        keys = item_keys(known, value)
        repeated = _repeated(keys)
        for name, item in zip(keys, value, strict=True):
            place = (*path, name)
            out.append(place)
            if struct is not None and isinstance(item, dict) and name not in repeated:
                _collect_struct(item, struct, place, out)


def _repeated(keys: list[str]) -> frozenset[str]:
    """The keys that more than one item has: such items are owned as a whole.

    Upstream: structured-merge-diff typed/tofieldset.go and compare.go, visitListItems.
    """
    if len(dict.fromkeys(keys)) == len(keys):
        return frozenset()
    return frozenset(key for key, count in Counter(keys).items() if count > 1)


@define
class Difference:
    """Paths that came, changed and went."""

    added: list[Path] = field(factory=list)
    modified: list[Path] = field(factory=list)
    removed: list[Path] = field(factory=list)
    keyless: bool = False
    """An item of a keyed list that changed may have no key."""

    def taken(self) -> Paths:
        """The paths that the manager of the change owns now."""
        return frozenset(self.added).union(self.modified)


def compare(old: Tree, new: Tree, struct: StructType) -> Difference:
    """The difference of two canonical objects."""
    out = Difference()
    _compare_struct(old, new, struct, (), out)
    return out


def _compare_struct(old: Tree, new: Tree, struct: StructType, path: Path, out: Difference) -> None:
    if old is new:
        return
    if not old and len(path) > 1:
        _add_struct(new, struct, path, out)
        return
    spend(len(old) + len(new) * (1 + len(path) // 8))
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if before is after or before == after:
            if before is None and path and (key in old) is not (key in new):  # a null came or went
                (out.added if key in new else out.removed).append((*path, f"f:{key}"))
            continue
        known = struct.fields.get(key)
        if known is None and struct.open:
            known = DEDUCED
        if before is None and key in old and granular(known) and isinstance(after, list):
            before = []  # an empty list that was written as null
        if key == "spec" and not path and known is not None and type(after) is dict:
            _compare_spec(before, after, known, out)
        else:
            _compare(before, after, known, (*path, f"f:{key}"), out)


def _add_struct(new: Tree, struct: StructType, path: Path, out: Difference) -> None:
    """`_compare_struct` where nothing was there: all that is new was added."""
    spend(len(new) * (1 + len(path) // 8))
    fields, added = struct.fields, out.added
    for key, after in new.items():
        place = (*path, f"f:{key}")
        if type(after) not in _SCALARS and after is not None:
            known = fields.get(key)
            if known is None and struct.open:
                known = DEDUCED
            if granular(known) and isinstance(after, dict | list):
                assert known is not None
                if known.kind == Kind.STRUCT and isinstance(after, dict):
                    _add_struct(after, known.struct, place, out)
                    added.append(place)
                else:
                    _compare(None, after, known, place, out)
                continue
        added.append(place)


_SPECS: Final[IdentityCache[tuple[Any, Field, Difference, int]]] = IdentityCache(
    "differences of specs", 64
)
"""The differences of specs, with the steps to compute them: both specs are kept so that their ids stay their own."""


def _compare_spec(before: Any, after: Tree, known: Field, out: Difference) -> None:
    """The same for a spec: objects made from one template share it, and differ from none in the same way."""
    which = id(before), id(known)
    found = _SPECS.get(after, which)
    if found is None:
        own, left = Difference(), work.left()
        _compare(before, after, known, ("f:spec",), own)
        _SPECS.put(after, (before, known, own, left - work.left()), which)
    else:
        _, _, own, steps = found
        spend(steps)
    out.added += own.added
    out.modified += own.modified
    out.removed += own.removed
    out.keyless = out.keyless or own.keyless


def _composite(value: Any) -> bool:
    """A value with parts, or none at all; custom resources may hold anything until validated."""
    return value is None or isinstance(value, (dict, list))


def _note(before: Any, after: Any, path: Path, out: Difference) -> None:
    """Note an added, removed or changed path."""
    (out.added if before is None else out.removed if after is None else out.modified).append(path)


def _compare(before: Any, after: Any, known: Field | None, path: Path, out: Difference) -> None:
    if before is None and after is None:
        return
    if not granular(known) or not (_composite(before) and _composite(after)):
        _note(before, after, path, out)
        return
    assert known is not None
    wanted = list if known.kind == Kind.LIST else dict
    if not all(value is None or isinstance(value, wanted) for value in (before, after)):
        _note(before, after, path, out)
        return
    if known.kind == Kind.STRUCT:
        _compare_struct(before or {}, after or {}, known.struct, path, out)
    elif known.kind == Kind.MAP:
        old, new = before or {}, after or {}
        spend(len(old) + len(new) * (1 + len(path) // 8))
        element = known.element
        parted = granular(element)
        for key in dict.fromkeys((*old, *new)):
            was, now = old.get(key), new.get(key)
            if was is now or was == now:
                if was is None and (key in old) is not (key in new):  # a null that came or went
                    (out.added if key in new else out.removed).append((*path, f"f:{key}"))
                continue
            if parted:
                _compare(was, now, element, (*path, f"f:{key}"), out)
            else:
                _note(was, now, (*path, f"f:{key}"), out)
    else:
        _compare_items(before or [], after or [], known, path, out)
    if before is None:
        out.added.append(path)
    elif after is None:
        out.removed.append(path)


def _compare_items(
    old: list[Any], new: list[Any], known: Field, path: Path, out: Difference
) -> None:
    spend((len(old) + len(new)) * (2 + len(path) // 8))
    old_keys, new_keys = item_keys(known, old), item_keys(known, new)
    before = dict(zip(old_keys, old, strict=True))
    after = dict(zip(new_keys, new, strict=True))
    out.keyless = out.keyless or NO_KEY in after
    element = known.element
    struct = None
    if element is not None and element.kind == Kind.STRUCT and granular(element):
        struct = element.struct
    twins = _repeated(old_keys) | _repeated(new_keys)
    for key in dict.fromkeys((*before, *after)):
        place = (*path, key)
        a, b = before.get(key), after.get(key)
        if key in twins:
            was = [item for mine, item in zip(old_keys, old, strict=True) if mine == key]
            now = [item for mine, item in zip(new_keys, new, strict=True) if mine == key]
            _compare_twins(was, now, struct, place, out)
            continue
        if a == b:
            continue
        if struct is not None and all(v is None or isinstance(v, dict) for v in (a, b)):
            _compare_struct(a or {}, b or {}, struct, place, out)
        elif key in before and key in after:
            out.modified.append(place)
        if key not in before:
            out.added.append(place)
        elif key not in after:
            out.removed.append(place)


def _compare_twins(
    was: list[Any], now: list[Any], struct: StructType | None, place: Path, out: Difference
) -> None:
    """Compare the items of one key where there are several: they are owned as a whole, one alone by its parts."""
    if len(was) > 1 and len(now) > 1:
        if was != now:
            out.modified.append(place)
        return
    several_now = len(now) > 1
    old = was[0] if several_now and was else None
    new = now[0] if not several_now and now else None
    if struct is not None and all(each is None or isinstance(each, dict) for each in (old, new)):
        _compare_struct(old or {}, new or {}, struct, place, out)
    (out.added if several_now else out.removed).append(place)


def in_set_order(paths: Paths) -> list[Path]:
    """The paths as upstream's sets list them: at each place what ends there, then what goes on."""
    return sorted(
        paths, key=lambda path: [(at + 1 < len(path), element) for at, element in enumerate(path)]
    )


def _shown_value(value: Any) -> str:
    """A value of a key as conflict messages print it. Upstream: structured-merge-diff value.ToString."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, list):
        return f"[{','.join(map(_shown_value, value))}]"
    if isinstance(value, dict):
        return "".join(f"{key}={_shown_value(item)}" for key, item in value.items())
    return "null" if value is None else go_value(value)


def shown(path: Path) -> str:
    """The path as conflict messages print it."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = json.loads(rest)
            listed = ",".join(f"{key}={_shown_value(value)}" for key, value in keys.items())
            text += f"[{listed}]"
        elif kind == "v":
            text += f"[={rest}]"
        else:
            text += f"[{rest}]"
    return text
