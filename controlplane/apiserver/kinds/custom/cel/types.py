"""Types of expressions, and when a value of one type may stand where another is wanted.

Upstream: cel-go common/types and checker/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from attrs import field, frozen

from controlplane.apiserver.schema.work import spend

__all__ = [
    "ANY",
    "BOOL",
    "DYN",
    "ERROR",
    "INT",
    "NULL",
    "STRING",
    "Mappings",
    "Type",
    "exact",
    "general",
    "is_dynamic",
    "is_struct",
    "list_of",
    "map_of",
    "optional_of",
    "read_type",
    "resolved",
    "type_of",
    "unified",
    "unified_all",
    "unwrapped",
]


@frozen(eq=False)
class Type:
    """A type of values.

    Attributes:
        name: as messages show it.
        params: the types of elements, or of keys and values.
        fields: the fields of an object by their identifiers, None for other types.
        variable: the type stands for any type until it is bound.
    """

    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = None
    variable: bool = False
    open: bool = field(init=False, default=False)
    """A variable occurs in the type."""

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "open", self.variable or any(p.open for p in self.params))

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


@cache
def _plain(name: str) -> Type:
    return Type(name)


def _simple(name: str, params: tuple[Type, ...] = ()) -> Type:
    """The type of this name; types without parameters exist once."""
    return Type(name, params) if params else _plain(name)


DYN = _simple("dyn")
ANY = _simple("any")
"""As `dyn`, but a type of its own in messages: `google.protobuf.Any`."""
ERROR = _simple("!error!")
BOOL, INT, STRING, NULL = _simple("bool"), _simple("int"), _simple("string"), _simple("null")
_SCALARS = frozenset(
    (
        "bool",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "null",
        "duration",
        "timestamp",
        "dyn",
        "any",
        "!error!",
        "list",
        "map",
        "type",
    )
)
_OPAQUE = frozenset(("net.IP", "net.CIDR", "optional_type"))


def list_of(element: Type) -> Type:
    """The type of lists of these elements."""
    return _simple("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """The type of maps from keys to values of these types."""
    return _simple("map", (key, value))


def optional_of(inner: Type) -> Type:
    """The type of a value of this type that may be missing."""
    return _simple("optional_type", (inner,))


def type_of(inner: Type) -> Type:
    """The type of a name of a type."""
    return _simple("type", (inner,))


def unwrapped(kind: Type) -> tuple[Type, bool]:
    """The type inside an optional type, and true; any other type as it is, and false."""
    return (kind.params[0], True) if kind.name == "optional_type" else (kind, False)


def is_dynamic(kind: Type) -> bool:
    """Return whether the type of the value is only known at run time."""
    return kind is DYN or kind is ANY


def is_struct(kind: Type) -> bool:
    """True for types with fields, declared or hidden, such as `kubernetes.Quantity`."""
    return not kind.variable and kind.name not in _SCALARS and kind.name not in _OPAQUE


def read_type(text: str) -> Type:
    """The type that a text such as `map(string, A)` names; one capital is a variable."""
    name, opened, rest = text.strip().partition("(")
    if not opened:
        return Type(name, variable=True) if len(name) == 1 and name.isupper() else _simple(name)
    depth, start, parts = 0, 0, []
    inner = rest[:-1]
    for at, char in enumerate(inner):
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append(inner[start:at])
            start = at + 1
    parts.append(inner[start:])
    return _simple(name, tuple(read_type(part) for part in parts))


# -- unification ---------------------------------------------------------------------------------

Mappings = dict[str, Type]
"""The types that variables are bound to, by name."""


def exact(a: Type, b: Type) -> bool:
    """True where two types are the same."""
    if a is b:
        return True
    if a.fields is not None or b.fields is not None:
        return False
    if a.name != b.name or len(a.params) != len(b.params):
        return False
    return all(map(exact, a.params, b.params))


def resolved(kind: Type, mappings: Mappings, *, to_dyn: bool = True) -> Type:
    """The type with its variables replaced; with `to_dyn` those that are not bound become `dyn`."""
    if not kind.open:
        return kind
    if kind.variable:
        found = mappings.get(kind.name)
        if found is not None:
            return resolved(found, mappings, to_dyn=to_dyn)
        return DYN if to_dyn else kind
    return _simple(kind.name, tuple(resolved(p, mappings, to_dyn=to_dyn) for p in kind.params))


def unified(mappings: Mappings, a: Type, b: Type) -> Mappings | None:
    """The bindings under which `a` may stand where `b` is wanted; None if there are none."""
    if not a.open and not b.open:
        return mappings if _assignable(mappings, a, b) else None
    copied = _copied(mappings)
    return copied if _assignable(copied, a, b) else None


def _copied(mappings: Mappings) -> Mappings:
    spend(len(mappings) >> 6)
    return dict(mappings)


def unified_all(mappings: Mappings, a: Sequence[Type], b: Sequence[Type]) -> Mappings | None:
    """As `unified`, for each pair of two sequences."""
    if len(a) != len(b):
        return None
    is_open = any(kind.open for kind in b) or any(kind.open for kind in a)
    copied = _copied(mappings) if is_open else mappings
    return copied if all(_assignable(copied, x, y) for x, y in zip(a, b, strict=True)) else None


def _assignable(mappings: Mappings, a: Type, b: Type) -> bool:
    if b.variable:
        valid, known = _substitution(mappings, a, b)
        if valid:
            return True
        if known:
            return False
    if a.variable:
        return _substitution(mappings, b, a)[0]
    if is_dynamic(a) or is_dynamic(b) or a is ERROR or b is ERROR:
        return True
    if a is NULL or b is NULL:
        return _nullable(b if a is NULL else a)
    if a.params:
        if a.name == "type" or a.name != b.name or len(a.params) != len(b.params):
            return a.name == b.name == "type"
        return all(_assignable(mappings, x, y) for x, y in zip(a.params, b.params, strict=True))
    return a is b or (a.fields is None and b.fields is None and a.name == b.name)


def _substitution(mappings: Mappings, a: Type, b: Type) -> tuple[bool, bool]:
    """Bind the variable `b` to `a`: true if that is valid; true if it was bound before."""
    if a is b or (a.variable and a.name == b.name):
        return True, True
    bound = mappings.get(b.name)
    if bound is not None:
        if exact(a, bound):
            return True, True
        if not _assignable(mappings, a, bound):
            return False, True
        wider = general(a, bound)
        if _free_of(mappings, b, wider):
            mappings[b.name] = wider
        return True, True
    if _free_of(mappings, b, a):
        mappings[b.name] = a
        return True, False
    return False, False


def _free_of(mappings: Mappings, variable: Type, within: Type) -> bool:
    """True unless the variable occurs within the type."""
    if not within.open:
        return True
    if within.variable:
        if within.name == variable.name:
            return False
        bound = mappings.get(within.name)
        return bound is None or _free_of(mappings, variable, bound)
    return all(_free_of(mappings, variable, part) for part in within.params)


def _nullable(kind: Type) -> bool:
    return kind.name in ("duration", "timestamp", "null") or kind.name in _OPAQUE or is_struct(kind)


def general(a: Type, b: Type) -> Type:
    """Of two types that fit each other the one that says less."""
    return a if _less_specific(a, b) else b


def _less_specific(a: Type, b: Type) -> bool:
    if is_dynamic(a) or a.variable:
        return True
    if is_dynamic(b) or b.variable:
        return False
    if a.name == "type":
        return b.name == "type"
    if a.params:
        if a.name != b.name or len(a.params) != len(b.params):
            return False
        return all(map(_less_specific, a.params, b.params))
    return exact(a, b)
