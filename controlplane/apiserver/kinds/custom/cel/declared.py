"""The types that a schema gives its values, with the sizes that they may have.

Upstream: apiserver pkg/cel/common/schemas.go, pkg/cel/escaping.go and pkg/cel/limits.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.cel.types import (
    BOOL,
    DYN,
    INT,
    STRING,
    Type,
    list_of,
    map_of,
    read_type,
)

__all__ = ["REQUEST_SIZE", "RESERVED", "Declared", "declared", "escaped"]

REQUEST_SIZE: Final = 3 * 1024 * 1024
"""Bytes of the largest request."""
_LONGEST_TEXT: Final = REQUEST_SIZE - 2
"""Bytes of the longest text in a request, without its quotes."""
RESERVED: Final = frozenset(
    (
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    )
)
_FORMATS: Final = {
    "duration": ("duration", 3, 32),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 21, 32),
}
"""Formats of texts that are values of other types: the type, the least and the greatest size."""


@frozen(eq=False)
class Declared:
    """The type of the values of a schema, with their sizes.

    Attributes:
        type: their type.
        most: how many characters, elements or entries a value has at most; 0 for other values.
        least: bytes that a value takes at least, as JSON.
        element: the elements of a list or the values of a map.
        key: the keys of a map.
        fields: the fields of an object, by their identifiers.
    """

    type: Type
    most: int = 0
    least: int = 1
    element: Declared | None = None
    key: Declared | None = None
    fields: Mapping[str, Declared] | None = None


_KEY: Final = Declared(STRING, least=2)
_SIMPLE: Final = {
    "boolean": Declared(BOOL, least=4),
    "number": Declared(read_type("double")),
    "integer": Declared(INT),
}
_NAME: Final[Tree] = {"type": "string"}
_META: Final[Tree] = {"type": "object", "properties": {"name": _NAME, "generateName": _NAME}}


@frozen(eq=False)
class _Fields(Mapping[str, Type]):
    """The types of fields. A field whose name is a reserved word is also found by that word."""

    known: Mapping[str, Declared]

    def __getitem__(self, name: str) -> Type:
        found = self.known.get(name)
        if found is None and name in RESERVED:
            found = self.known.get(f"__{name}__")
        if found is None:
            raise KeyError(name)
        return found.type

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def escaped(name: str) -> str | None:
    """A property's name as an identifier, or None if it cannot be one."""
    if name in RESERVED:
        return f"__{name}__"
    coded = name.replace("__", "__underscores__").replace(".", "__dot__")
    coded = coded.replace("-", "__dash__").replace("/", "__slash__")
    return coded if coded.isascii() and coded.isidentifier() else None


def declared(schema: Tree, *, root: bool = False) -> Declared | None:
    """The type and sizes of the values of a schema; None where rules see nothing of them.

    Args:
        schema: the schema.
        root: the schema is a resource's root, or an embedded resource, which has its kind,
            version and name though the schema names none.
    """
    if schema.get("x-kubernetes-int-or-string"):
        most = schema.get("maxLength")
        return Declared(DYN, _LONGEST_TEXT if most is None else _positive(most) * 4)
    kind = schema.get("type", "")
    if kind == "array":
        return _list(schema)
    if kind == "object" or (root and not kind):
        return _object(schema, root=root)
    return _text(schema) if kind == "string" else _SIMPLE.get(kind)


def _positive(count: object) -> int:
    return max(int(count), 0) if isinstance(count, int | float) else 0


def _part(schema: object) -> Declared | None:
    if not isinstance(schema, dict):
        return None
    return declared(schema, root=bool(schema.get("x-kubernetes-embedded-resource")))


def _list(schema: Tree) -> Declared | None:
    element = _part(schema.get("items"))
    if element is None:
        return None
    bound = schema.get("maxItems")
    # Brackets, and a comma for each item.
    most = _LONGEST_TEXT // (element.least + 1) if bound is None else _positive(bound)
    return Declared(list_of(element.type), most, 2, element)


def _object(schema: Tree, *, root: bool) -> Declared | None:
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        value = _part(more)
        if value is None:
            return None
        bound = schema.get("maxProperties")
        # A key of two bytes, its quotes, a colon and a comma for each value.
        most = _LONGEST_TEXT // (value.least + 6) if bound is None else _positive(bound)
        return Declared(map_of(STRING, value.type), most, 2, value, _KEY)
    known = dict(schema.get("properties") or {})
    if root and not _names_resource(known):
        known.update(apiVersion=_NAME, kind=_NAME, metadata=_META)
    required = set(schema.get("required") or ())
    fields: dict[str, Declared] = {}
    least = 2
    for name, part in known.items():
        found, code = _part(part), escaped(name)
        if found is None:
            continue
        if code is not None:
            fields[code] = found
        if name in required and part.get("default") is None:
            least += len(name.encode()) + found.least + 4
    return Declared(Type("object", fields=_Fields(fields)), 0, least, fields=fields)


def _names_resource(known: Tree) -> bool:
    """True where the properties declare themselves all that is known of every resource."""
    meta = known.get("metadata") or {}
    names = meta.get("properties") or {}
    texts = (
        known.get("kind"),
        known.get("apiVersion"),
        names.get("name"),
        names.get("generateName"),
    )
    return meta.get("type") == "object" and all(
        part is not None and part.get("type") == "string" for part in texts
    )


def _text(schema: Tree) -> Declared:
    form = schema.get("format", "")
    if form in _FORMATS:
        name, least, most = _FORMATS[form]
        return Declared(read_type(name), most, least)
    bound = schema.get("maxLength")
    if form == "byte":
        return Declared(read_type("bytes"), _LONGEST_TEXT if bound is None else _positive(bound), 2)
    if bound is not None:
        # Lengths are counted in characters, of which each takes four bytes at most.
        return Declared(STRING, _positive(bound) * 4, 2)
    choices = schema.get("enum")
    if choices:
        texts = [len(item.encode()) for item in choices if isinstance(item, str)]
        return Declared(STRING, max(texts, default=0), 2)
    return Declared(STRING, _LONGEST_TEXT, 2)
