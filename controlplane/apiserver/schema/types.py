"""The types of the built-in API: fields, list keys, merge rules and schema defaults.

The table is package data made from a running API server of Kubernetes 1.36. It is loaded once, on
first use, and never changed. Types of custom resources are built by `controlplane.apiserver.requests.crd`.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib import resources
from typing import Any

from attrs import field, frozen

from controlplane.api.tree import Tree

__all__ = ["DEDUCED", "Field", "Kind", "StructType", "load_data", "struct_type"]


class Kind:
    """The shapes a field can have."""

    STRING = 0
    BOOL = 1
    INT = 2
    NUMBER = 3
    QUANTITY = 4
    TIME = 5
    MICRO_TIME = 6
    INT_OR_STRING = 7
    BYTES = 8
    OPAQUE = 9
    STRUCT = 10
    LIST = 11
    MAP = 12


_LEAVES = {
    "string": Kind.STRING,
    "boolean": Kind.BOOL,
    "integer:int32": Kind.INT,
    "integer:int64": Kind.INT,
    "integer": Kind.INT,
    "number:double": Kind.NUMBER,
    "number": Kind.NUMBER,
    "string:byte": Kind.BYTES,
    "string:date-time": Kind.TIME,
    "object": Kind.OPAQUE,
    "any": Kind.OPAQUE,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Kind.QUANTITY,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": Kind.TIME,
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": Kind.MICRO_TIME,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": Kind.INT_OR_STRING,
}


@frozen
class Field:
    """One field, list element or map value of a type.

    `default` is what the schema declares (None: nothing); `required` means the field is always
    encoded; `merge_key` and `strategies` steer strategic merge patch; `list_type` and `list_keys`
    steer server-side apply.
    """

    name: str
    kind: int
    type_name: str
    bits: int = 64
    element: Field | None = None
    required: bool = False
    has_default: bool = False
    default: Any = None
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    merge_key: str = ""
    strategies: tuple[str, ...] = ()
    enum: tuple[str, ...] = ()

    @property
    def struct(self) -> StructType:
        """The type of this field, when it is a struct."""
        return struct_type(self.type_name)


@frozen(eq=False)
class StructType:
    """One named type. `name` is its OpenAPI definition name; `map_type` "atomic": owned as a whole.

    `open`: it may have fields of any name beside those declared, see `DEDUCED`.
    """

    name: str
    fields: dict[str, Field] = field(factory=dict)
    map_type: str = ""
    open: bool = False

    @property
    def short(self) -> str:
        """The last segment of the name, as Go prints it."""
        return self.name.rsplit(".", 1)[-1]

    @property
    def package_version(self) -> str:
        """The Go package of the type, which is its API version."""
        return self.name.rsplit(".", 2)[-2]


@frozen(eq=False)
class _Deduced(Field):
    """The type of a value that no schema describes: maps have owners for each field, all else is owned as a whole."""


DEDUCED = _Deduced("", Kind.MAP, "")
object.__setattr__(DEDUCED, "element", DEDUCED)  # the values of such a map are of the same type
"""The type `__untyped_deduced_` of structured-merge-diff."""


@cache
def load_data(name: str) -> Tree:
    """One of the package's compressed tables, parsed."""
    raw = resources.files(__package__).joinpath(f"data/{name}.json.gz").read_bytes()
    loaded: Tree = json.loads(gzip.decompress(raw))
    return loaded


@cache
def _types() -> Tree:
    types: Tree = load_data("types")["types"]
    return types


def _build(name: str, declared: Any, attributes: Tree, required: bool) -> Field:
    common: Tree = {
        "name": name,
        "required": required,
        "has_default": "default" in attributes,
        "default": attributes.get("default"),
        "list_type": attributes.get("listType", ""),
        "list_keys": tuple(attributes.get("listMapKeys", ())),
        "map_type": attributes.get("mapType", ""),
        "merge_key": attributes.get("patchMergeKey", ""),
        "strategies": tuple(filter(None, attributes.get("patchStrategy", "").split(","))),
        "enum": tuple(attributes.get("enum", ())),
    }
    if isinstance(declared, list):
        element = _build("", declared[0], {}, required=False)
        return Field(kind=Kind.LIST, type_name="", element=element, **common)
    if isinstance(declared, dict):
        element = _build("", declared["map"], {}, required=False)
        return Field(kind=Kind.MAP, type_name="", element=element, **common)
    leaf = _LEAVES.get(declared)
    if leaf is not None:
        bits = 32 if declared.endswith("int32") else 64
        return Field(kind=leaf, type_name=declared, bits=bits, **common)
    if "fields" in _types().get(declared, ()):
        return Field(kind=Kind.STRUCT, type_name=declared, **common)
    return Field(kind=Kind.OPAQUE, type_name=declared, **common)


@cache
def struct_type(name: str) -> StructType:
    """The type called `name` (an OpenAPI definition name). KeyError if there is none."""
    declared = _types()[name]
    required = set(declared.get("required", ()))
    fields = {
        key: _build(key, value["type"], value, key in required)
        for key, value in declared.get("fields", {}).items()
    }
    return StructType(name, fields, declared.get("mapType", ""))
