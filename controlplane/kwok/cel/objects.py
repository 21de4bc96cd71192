"""Pods and nodes as expressions of KWOK see them: objects of Go's types, in which an absent field has its zero value.

Nine types are registered with their fields; a field of any other type is a value that can be passed on, but not looked
into. Maps of quantities are resource lists, in which an absent resource is a quantity of zero.
Upstream: pkg/utils/cel/default.go and resource_list.go, github.com/wzshiming/easycel native.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from controlplane.api.quantity import Quantity
from controlplane.apiserver.kinds.custom.cel.maps import ABSENT, Complete, Typed
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
from controlplane.apiserver.kinds.custom.cel.values import moment
from controlplane.apiserver.schema.types import Field, Kind, StructType, struct_type
from controlplane.apiserver.schema.zero_values import keeps_zero

__all__ = ["FIELDS", "GoObject", "ResourceList", "go_object", "type_of_kind"]

_CORE: Final = "io.k8s.api.core.v1"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_REGISTERED: Final = (
    *(
        f"{_CORE}.{name}"
        for name in ("Node", "NodeSpec", "NodeStatus", "Pod", "PodSpec", "PodStatus")
    ),
    f"{_CORE}.Container",
    f"{_CORE}.ResourceRequirements",
    f"{_META}.ObjectMeta",
)
_BY_VALUE: Final = frozenset(
    "ObjectMeta NodeSpec NodeStatus PodSpec PodStatus NodeDaemonEndpoints NodeSystemInfo".split()
)
"""Types of fields that are no pointers wherever a registered type has them."""
_TYPE_META: Final = ("apiVersion", "kind")
"""Fields that stand in an embedded struct, which expressions see under the name of its type."""
_MAP: Final = map_of(STRING, DYN)
ZERO_TIME: Final = datetime.min.replace(tzinfo=UTC)
_LEAVES: Final = {
    Kind.STRING: (STRING, ""),
    Kind.BOOL: (BOOL, False),
    Kind.INT: (INT, 0),
    Kind.NUMBER: (read_type("double"), 0.0),
    Kind.QUANTITY: (read_type("cel.Quantity"), Quantity.new(0)),
    Kind.TIME: (read_type("timestamp"), ZERO_TIME),
    Kind.MICRO_TIME: (read_type("timestamp"), ZERO_TIME),
    Kind.BYTES: (read_type("bytes"), b""),
}
"""The type and the zero value of fields without parts; all others are dynamic."""


class ResourceList(Complete):
    """Quantities by the names of their resources; that of any other resource is zero."""

    def __init__(self, tree: Mapping[str, Any]) -> None:
        super().__init__(
            {name: Quantity.parse(str(amount)) for name, amount in tree.items()},
            Quantity.new_milli(0),
        )


class GoObject(Typed):
    """An object of one of Go's types, made from its JSON."""

    def __init__(self, struct: StructType, tree: Mapping[str, Any]) -> None:
        self.type_name = _go_name(struct)
        self._struct = struct
        self._tree = tree

    def get(self, name: Any) -> Any:
        """Return the value of a field, `ABSENT` where the type has none of this name."""
        if name == "TypeMeta":
            return GoObject(StructType(f"{_META}.TypeMeta"), {})
        field = self._struct.fields.get(name)
        if field is None or name in _TYPE_META:
            return ABSENT
        return _value(self._struct, field, self._tree.get(name))

    def is_set(self, name: Any) -> bool:
        """Return whether a field has another value than its zero value; a pointer is set wherever it leads."""
        field, value = self._struct.fields.get(name), self._tree.get(name)
        if field is None or value is None:
            return False
        if field.kind == Kind.STRUCT and not _is_pointer(self._struct, field):
            return any(map(GoObject(field.struct, value).is_set, field.struct.fields))
        return _is_pointer(self._struct, field) or value not in ("", False, 0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GoObject) and (self.type_name, self._tree) == (
            other.type_name,
            other._tree,
        )

    __hash__ = None  # type: ignore[assignment]


def _go_name(struct: StructType) -> str:
    return f"{struct.package_version}.{struct.short}"


def _is_pointer(owner: StructType, field: Field) -> bool:
    if field.kind == Kind.STRUCT:
        is_resources = owner.short == "Container" and field.name == "resources"
        return not is_resources and field.struct.short not in _BY_VALUE
    if field.kind not in (Kind.STRING, Kind.BOOL, Kind.INT):
        return False
    return not field.required and not field.has_default and keeps_zero(owner, field)


def _value(owner: StructType, field: Field, value: Any) -> Any:
    if value is None and _is_pointer(owner, field):
        return None
    if field.kind == Kind.STRUCT:
        return GoObject(field.struct, value or {})
    if field.kind == Kind.LIST:
        element = field.element
        if element is None or element.kind != Kind.STRUCT:
            return list(value or ())
        return [GoObject(element.struct, each or {}) for each in value or ()]
    if field.kind == Kind.MAP:
        resources = field.element is not None and field.element.kind == Kind.QUANTITY
        return ResourceList(value or {}) if resources else dict(value or {})
    if field.kind not in _LEAVES:
        return value
    if value is None:
        return _LEAVES[field.kind][1]
    return moment(value) if field.kind in (Kind.TIME, Kind.MICRO_TIME) else value


def _type(owner: StructType, field: Field) -> Type:
    if field.kind == Kind.STRUCT:
        return read_type(_go_name(field.struct))
    if field.kind == Kind.LIST:
        return list_of(DYN if field.element is None else _type(owner, field.element))
    if field.kind == Kind.MAP:
        if field.element is not None and field.element.kind == Kind.QUANTITY:
            return read_type("cel.ResourceList")
        return map_of(STRING, DYN if field.element is None else _type(owner, field.element))
    # Upstream wraps the types of pointers, which are also null; here they are dynamic.
    found = _LEAVES.get(field.kind)
    return DYN if found is None or _is_pointer(owner, field) else found[0]


class _Fields(Mapping[str, Mapping[str, Type]]):
    """The types of the fields of the registered types, by the type's name; read on first use."""

    def __getitem__(self, name: str) -> Mapping[str, Type]:
        return _fields()[name]

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(_fields())

    def __len__(self) -> int:
        return len(_fields())


@cache
def _fields() -> Mapping[str, Mapping[str, Type]]:
    found: dict[str, Mapping[str, Type]] = {}
    for struct in map(struct_type, _REGISTERED):
        types = {
            name: _type(struct, field)
            for name, field in struct.fields.items()
            if name not in _TYPE_META
        }
        if len(types) != len(struct.fields):
            types["TypeMeta"] = read_type("v1.TypeMeta")
        found[_go_name(struct)] = types
    return found


FIELDS: Final = _Fields()


def type_of_kind(api_version: str, kind: str) -> Type:
    """Return the type of the objects of a kind: pods and nodes are typed, all others are maps."""
    if api_version == "v1" and kind in ("Pod", "Node"):
        return read_type(f"v1.{kind}")
    return _MAP


def go_object(name: str, tree: Mapping[str, Any]) -> GoObject:
    """Return an object of a type of the core API, for example `Pod` or `Container`, from its JSON."""
    return GoObject(struct_type(f"{_CORE}.{name}"), tree)
