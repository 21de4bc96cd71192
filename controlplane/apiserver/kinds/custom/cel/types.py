"""Types of expressions, and the types that a schema gives its values.

Upstream: cel-go common/types and apiserver pkg/cel/common/schemas.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from attrs import field, frozen

from controlplane.api.tree import Tree

__all__ = ["BOOL", "DYN", "ERROR", "INT", "STRING", "Binding", "Type", "assignable", "list_of",
           "map_of", "of_schema", "optional_of", "read_type", "resolved", "type_of"]  # fmt: skip


@frozen(eq=False)
class Type:
    """A type; `fields` are those of an object, `variable` says that it stands for any type."""

    name: str
    params: tuple[Type, ...] = ()
    fields: Mapping[str, Type] | None = field(default=None)
    variable: bool = False

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


@cache
def _plain(name: str) -> Type:
    return Type(name)


def _simple(name: str, params: tuple[Type, ...] = ()) -> Type:
    """Types without parameters are the same one by name."""
    return Type(name, params) if params else _plain(name)


DYN = _simple("dyn")
ERROR = _simple("!error!")
BOOL, INT, STRING = _simple("bool"), _simple("int"), _simple("string")


def list_of(element: Type) -> Type:
    """The type of lists of this."""
    return _simple("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return _simple("map", (key, value))


def optional_of(inner: Type) -> Type:
    """The type of what may be missing."""
    return _simple("optional_type", (inner,))


def type_of(inner: Type) -> Type:
    """The type of a type."""
    return _simple("type", (inner,))


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


Binding = dict[str, Type]


def resolved(kind: Type, bound: Binding) -> Type:
    """The type with its variables replaced by what they are bound to; unbound ones are dyn."""
    if kind.variable:
        found = bound.get(kind.name)
        return DYN if found is None else resolved(found, bound)
    if not kind.params:
        return kind
    return _simple(kind.name, tuple(resolved(part, bound) for part in kind.params))


_NULLABLE = {"timestamp", "duration", "optional_type"}


def assignable(wanted: Type, given: Type, bound: Binding) -> bool:
    """Whether a value of one type may stand where the other is wanted; variables are bound."""
    if wanted.variable:
        known = bound.get(wanted.name)
        if known is None or known in (DYN, ERROR):
            bound[wanted.name] = given
            return True
        if given in (DYN, ERROR):
            return True
        if not assignable(known, given, bound):
            return False
        bound[wanted.name] = _general(known, given)
        return True
    if wanted in (DYN, ERROR) or given in (DYN, ERROR) or wanted is given or given.variable:
        return True
    if given.name == "null":
        return wanted.fields is not None or wanted.name in _NULLABLE or "." in wanted.name
    if wanted.name == "null":
        return given.fields is not None or given.name in _NULLABLE or "." in given.name
    if wanted.fields is not None or given.fields is not None:
        return False
    if wanted.name != given.name or len(wanted.params) != len(given.params):
        return False
    return all(assignable(a, b, bound) for a, b in zip(wanted.params, given.params, strict=True))


def _general(a: Type, b: Type) -> Type:
    """Of two types that fit each other the one that says less."""
    if b is DYN or a.name == "null":
        return b
    if a.params and a.name == b.name:
        return _simple(a.name, tuple(map(_general, a.params, b.params)))
    return a


# -- schemas -------------------------------------------------------------------------------------

_META = {"type": "object", "properties": {
    "name": {"type": "string"}, "generateName": {"type": "string"}}}  # fmt: skip
_RESERVED = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
))  # fmt: skip


def escaped(name: str) -> str | None:
    """A property's name as an identifier, or None if it cannot be one."""
    if name in _RESERVED:
        return f"__{name}__"
    coded = name.replace("__", "__underscores__").replace(".", "__dot__")
    coded = coded.replace("-", "__dash__").replace("/", "__slash__")
    plain = coded.isascii() and coded.isidentifier()
    return coded if plain else None


def of_schema(schema: Tree, *, root: bool = False) -> Type | None:
    """The type of a schema's values, None where rules see nothing.

    A resource's root (also an embedded one) has its kind and name though the schema names none.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    kind = schema.get("type", "object" if root else "")
    if kind == "array":
        items = schema.get("items")
        element = _part(items)
        return None if element is None else list_of(element)
    if kind == "object":
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and not root:
            value = _part(more)
            return None if value is None else map_of(STRING, value)
        known = dict(schema.get("properties") or {})
        if root:
            known.update(apiVersion={"type": "string"}, kind={"type": "string"}, metadata=_META)
        fields = {}
        for name, part in known.items():
            found, code = _part(part), escaped(name)
            if found is not None and code is not None:
                fields[code] = found
        return Type("object", fields=fields)
    if kind == "string":
        form = {"byte": "bytes", "duration": "duration", "date": "timestamp",
                "date-time": "timestamp"}.get(schema.get("format", ""), "string")  # fmt: skip
        return _simple(form)
    named = {"boolean": "bool", "number": "double", "integer": "int"}.get(kind)
    return None if named is None else _simple(named)


def _part(schema: object) -> Type | None:
    if not isinstance(schema, dict):
        return None
    return of_schema(schema, root=bool(schema.get("x-kubernetes-embedded-resource")))
