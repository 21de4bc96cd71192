"""Reading JSON as a built-in type: what upstream's typed decoding does to a body.

`decode` answers the canonical tree: unknown fields and nulls dropped, empty optional values
dropped, quantities and times in canonical text, always-encoded fields filled in. Subtrees that are
already canonical come back unchanged (the same object), and a subtree that is the `old` one is not
looked at again, so reading a patched or updated object costs what was changed.

Errors carry the texts of Go's encoding/json, which clients see in 400 answers.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from controlplane.api import quantity
from controlplane.api.times import format_micro_time, format_time, parse_time
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.apiserver.schema.empty_bytes import marked, may_be_empty
from controlplane.apiserver.schema.go_base64 import canonical
from controlplane.apiserver.schema.go_types import text_type
from controlplane.apiserver.schema.json_values import (
    FEW,
    NO_NUMBERS,
    DecodeError,
    PairsDict,
    WrittenFloat,
    check_numbers,
    go_number,
    json_type,
    mismatch,
)
from controlplane.apiserver.schema.types import Field, Kind, StructType, struct_type
from controlplane.apiserver.schema.work import spend
from controlplane.apiserver.schema.zero_values import keeps_zero
from controlplane.sharing.alike import KEPT, alike, alike_list, is_often_alike, is_shared
from controlplane.sharing.compact import compact
from controlplane.sharing.memory import Memory

__all__ = [
    "META_STRUCT",
    "NO_NUMBERS",
    "DecodeError",
    "PairsDict",
    "WrittenFloat",
    "check_numbers",
    "codec",
    "decode",
    "kind_error",
    "strict_issues",
]

_INT_RANGES = {32: (-(2**31), 2**31 - 1), 64: (-(2**63), 2**63 - 1)}

_FIRST_TIME = re.compile(r"\d{4}")


# The type that upstream reads a body as to learn its version and kind.
META_STRUCT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string '
    '"json:\\"kind,omitempty\\"" }'
)

_STRUCT = 4
"""Steps to read an item of a list or map, which may be a struct of few fields."""
_READ: Memory[tuple[int, int], tuple[list[Any], list[Any]]] = Memory("lists as read", KEPT)
"""The read forms of lists that objects share: by the identity of the field and of the list, which is kept alive."""


class FieldCodec:
    """The reader of the values of one field."""

    __slots__ = ("element", "enum", "field", "go_type", "keep_zero", "kind", "struct", "text_type")

    def __init__(self, field: Field, *, keep_zero: bool, text_type: str = "string") -> None:
        self.field = field
        self.text_type = text_type
        self.kind = field.kind
        self.keep_zero = keep_zero
        self.struct: StructCodec | None = None
        self.element: FieldCodec | None = None
        if field.element is not None:
            self.element = FieldCodec(field.element, keep_zero=True, text_type=text_type)
        if field.kind == Kind.STRUCT:
            self.struct = codec(field.type_name)
        self.go_type = self._go_name()

    def _go_name(self) -> str:
        kind = self.kind
        if kind == Kind.INT:
            return f"int{self.field.bits}"
        if kind == Kind.BOOL:
            return "bool"
        if kind == Kind.NUMBER:
            return "float64"
        if self.struct is not None:
            return f"{self.struct.type.package_version}.{self.struct.type.short}"
        if kind == Kind.LIST and self.element is not None:
            return "[]" + self.element.go_type
        if kind == Kind.MAP and self.element is not None:
            if self.element.kind == Kind.QUANTITY:
                return "v1.ResourceList"
            key = "v1.QualifiedName" if self.element.go_type in _QUALIFIED else "string"
            return f"map[{key}]{self.element.go_type}"
        return "[]uint8" if kind == Kind.BYTES else self.text_type

    def decode(self, value: Any, old: Any) -> Any:
        """The canonical value; None where upstream leaves the field out."""
        if value is old:
            return value
        struct = self.struct
        if struct is not None:
            if type(value) is not dict and not isinstance(value, dict):
                raise mismatch(value, self.go_type)
            return struct.decode(value, old)
        kind = self.kind
        if kind == _LIST:
            return self._decode_list(value, old)
        if kind == _MAP:
            return self._decode_map(value, old)
        return _LEAVES_READ[kind](self, value)

    def leaf(self, value: Any) -> Any:
        """The canonical form of a value that is neither struct, list nor map."""
        return _LEAVES_READ[self.kind](self, value)

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise mismatch(value, self.text_type)
        return value

    def _boolean(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise mismatch(value, "bool")
        return value

    def _number(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise mismatch(value, "float64")
        check_numbers(value)
        return value

    def _integer_or_text(self, value: Any) -> Any:
        return value if isinstance(value, str) else self._integer(value, 32)

    def _opaque(self, value: Any) -> Any:
        """Return an opaque value as it came; a part that may be a schema or another value is read as a schema."""
        if self.field.type_name.startswith(_SCHEMA_OR):
            return _schema_or(value, self.field.type_name.removeprefix(_SCHEMA_OR))
        if self.field.name != "fieldsV1":
            check_numbers(value)
        return value

    def _integer(self, value: Any, bits: int = 0) -> int:
        bits = bits or self.field.bits
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise mismatch(value, f"int{bits}")
        if isinstance(value, float):
            if isinstance(value, WrittenFloat):
                raise DecodeError(found=f"number {value.text}", wanted=f"int{bits}")
            if not value.is_integer() or abs(value) >= 2**63:
                raise DecodeError(found=f"number {go_number(value)}", wanted=f"int{bits}")
            value = int(value)
        low, high = _INT_RANGES[bits]
        if not low <= value <= high:
            raise DecodeError(found=f"number {value}", wanted=f"int{bits}")
        return int(value)

    def _decode_list(self, value: Any, old: Any) -> Any:
        if not isinstance(value, list):
            raise mismatch(value, self.go_type)
        element = self.element
        assert element is not None
        if element.struct is not None and element.struct.often_alike and is_shared(value):
            return self._decode_shared(value, old, element)
        if element.kind == Kind.STRING:
            for item in value:
                if type(item) is not str:
                    break
            else:
                spend(len(value))
                return value
        return self._decode_items(value, old, element)

    def _decode_shared(self, value: list[Any], old: Any, element: FieldCodec) -> list[Any]:
        """A list that objects share is read once, and what was read is shared, too."""
        key = (id(self), id(value))
        known = _READ.known.get(key)
        if known is not None:
            return known[1]
        read = alike_list(self._decode_items(value, old, element))
        _READ.keep(key, (value, read))
        return read

    def _decode_items(self, value: list[Any], old: Any, element: FieldCodec) -> list[Any]:
        olds = old if isinstance(old, list) else ()
        spend(_STRUCT * len(value))
        out = []
        changed = False
        for index, item in enumerate(value):
            if item is None:
                decoded = element.zero()
            else:
                decoded = element.decode(item, olds[index] if index < len(olds) else None)
            changed = changed or decoded is not item
            out.append(decoded)
        return out if changed else value

    def _decode_map(self, value: Any, old: Any) -> Any:
        if not isinstance(value, dict):
            raise mismatch(value, self.go_type)
        element = self.element
        assert element is not None
        if element.kind == Kind.STRING and type(value) is dict:
            for item in value.values():
                if type(item) is not str:
                    break
            else:
                spend(2 * len(value))  # validation reads its keys
                return value
        olds = old if isinstance(old, dict) else {}
        spend(_STRUCT * len(value))
        out: Tree = {}
        changed = type(value) is not dict
        for key, item in value.items():
            decoded = element.zero() if item is None else element.decode(item, olds.get(key))
            changed = changed or decoded is not item
            out[key] = decoded
        read = out if changed else value
        return alike(read) if element.kind == Kind.QUANTITY else read

    def zero(self) -> Any:
        """Return the value of a JSON null as a list element or map value."""
        if self.struct is not None:
            return self.struct.decode({}, None)
        return {
            Kind.STRING: "",
            Kind.BYTES: "",
            Kind.BOOL: False,
            Kind.INT: 0,
            Kind.QUANTITY: "0",
        }.get(self.kind)


class StructCodec:
    """The reader of objects of one struct type."""

    __slots__ = ("always", "bytes", "fields", "often", "often_alike", "texts", "type")

    def __init__(self, struct: StructType) -> None:
        self.type = struct
        self.often_alike = is_often_alike(struct.short)
        self.often = struct.short in _OFTEN
        self.bytes = may_be_empty(struct)
        self.fields: dict[str, FieldCodec] = {}
        self.texts: dict[str, bool] = {}
        """Those that are texts, and whether an empty one is kept."""
        self.always: list[tuple[str, Any]] = []

    def fill(self) -> None:
        """Build the field codecs; apart from construction because types may refer to each other."""
        for name, field in self.type.fields.items():
            keep = keeps_zero(self.type, field) or (
                name == "labels" and self.type.short == "ObjectMeta"
            )
            named = text_type(self.type.short, name, self.type.package_version)
            self.fields[name] = FieldCodec(field, keep_zero=keep, text_type=named)
            if name == "metadata" and self.type.short in _PLAIN_TEMPLATES:
                self.fields[name].struct = _plain_meta(field.type_name)
            if field.kind == Kind.STRING:
                self.texts[name] = keep
            if name in ("apiVersion", "kind") and not field.required:
                continue
            if field.has_default and (keep or field.kind == Kind.STRUCT):
                default = field.default
                if field.kind == Kind.STRUCT:
                    default = self.fields[name].struct.decode({}, None)  # type: ignore[union-attr]
                self.always.append((name, default))
            elif name in _NEVER_NULL.get(self.type.name, ()):
                continue
            elif field.required and field.kind in (
                Kind.LIST,
                Kind.MAP,
                Kind.STRUCT,
                Kind.TIME,
                Kind.MICRO_TIME,
                Kind.BYTES,
            ):
                self.always.append((name, None))
            elif field.required and field.kind == Kind.QUANTITY:
                self.always.append((name, "0"))
        listed = {name for name, _ in self.always}
        always_null = _ALWAYS_NULL.get(self.type.name, ())
        if self.type.short.endswith("Condition") or self.type.short in _TIMED:
            always_null = tuple(
                name for name, found in self.fields.items() if found.kind == Kind.TIME
            )
        self.always += [(name, None) for name in always_null if name not in listed]

    def decode(self, value: Tree, old: Any) -> Tree:
        """The canonical object."""
        olds = old if type(old) is dict else _EMPTY
        fields, texts = self.fields, self.texts
        out: Tree = {}
        changed = type(value) is not dict
        if len(value) > FEW:
            spend(len(value))
        for key, item in value.items():
            if type(item) is str and key in texts:
                if item or texts[key]:
                    out[key] = item
                else:
                    changed = True
                continue
            found = fields.get(key)
            if found is None or item is None:
                changed = True
                continue
            before = olds.get(key)
            if item is before:
                decoded = item
            else:
                try:
                    decoded = found.decode(item, before)
                except DecodeError as error:
                    error.within(self.type.short, key)
                    raise
            if (
                not decoded
                and not found.keep_zero
                and (decoded is None or found.kind not in _KEPT_EMPTY)
            ):
                changed = True
                continue
            if decoded is not item:
                changed = True
            out[key] = decoded
        for key, default in self.always:
            if key not in out:
                changed = (
                    changed or key not in value or value[key] is not None or (default is not None)
                )
                out[key] = default
        read = out if changed else value
        if self.often_alike:
            return alike(read)
        if self.bytes:
            return marked(read, value, self.bytes)
        return compact(read) if self.often and read is not old else read


_OFTEN = frozenset(("ContainerStatus", "PodSpec", "PodStatus"))
"""Types of which there is one for each pod."""
_EMPTY: Tree = {}
_LIST, _MAP = Kind.LIST, Kind.MAP
_KEPT_EMPTY = frozenset((Kind.STRUCT, Kind.OPAQUE, Kind.INT_OR_STRING, Kind.QUANTITY))
"""The kinds whose empty or zero values are kept."""
_SCHEMA = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
_SCHEMA_OR = f"{_SCHEMA}Or"
_QUALIFIED = ("v1.DeviceAttribute", "v1.DeviceCapacity")
"""The element types of maps whose keys have a type of their own."""
# Times that are no pointers are encoded as null when unset. Conditions have such times, too.
_TIMED = ("ContainerStateRunning", "ContainerStateTerminated", "VolumeError")
# Encoded as null when unset although the schema does not call them required.
_ALWAYS_NULL: dict[str, tuple[str, ...]] = {
    "io.k8s.api.core.v1.Event": ("eventTime", "firstTimestamp", "lastTimestamp"),
    "io.k8s.api.core.v1.EventSeries": ("lastObservedTime",),
    "io.k8s.api.core.v1.TypedLocalObjectReference": ("apiGroup",),
    "io.k8s.api.core.v1.TypedObjectReference": ("apiGroup",),
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerStatus": ("currentMetrics",),
    "io.k8s.api.core.v1.ProjectedVolumeSource": ("sources",),
    "io.k8s.api.core.v1.ContainerImage": ("names",),
    "io.k8s.api.discovery.v1.EndpointSlice": ("endpoints", "ports"),
    "io.k8s.api.flowcontrol.v1.ResourcePolicyRule": ("namespaces",),
    "io.k8s.api.resource.v1.AllocatedDeviceStatus": ("conditions",),
    "io.k8s.api.resource.v1.DeviceClaim": ("requests",),
    "io.k8s.api.scheduling.v1alpha2.PodGroupTemplate": ("schedulingConstraints",),
    "io.k8s.api.scheduling.v1alpha2.PodGroupSpec": ("podGroupTemplateRef",),
    "io.k8s.api.scheduling.v1alpha2.PodGroupTemplateReference": ("workload",),
    "io.k8s.api.storage.v1.CSINodeDriver": ("topologyKeys",),
    "io.k8s.api.rbac.v1.Role": ("rules",),
    "io.k8s.api.rbac.v1.ClusterRole": ("rules",),
}
# Left out when unset although the schema calls them required.
_NEVER_NULL: dict[str, tuple[str, ...]] = {
    "io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec": (
        "validationActions",
    ),
    "io.k8s.api.networking.v1.IPAddressSpec": ("parentRef",),
    "io.k8s.api.resource.v1.CounterSet": ("counters",),
    "io.k8s.api.resource.v1.DeviceCounterConsumption": ("counters",),
}


@cache
def _shell(name: str) -> StructCodec:
    return StructCodec(struct_type(name))


_PLAIN_TEMPLATES = ("JobTemplateSpec", "PersistentVolumeClaimTemplate", "ResourceClaimTemplateSpec")
"""The templates whose labels nothing compares with a selector: without an item they are left out."""


@cache
def _plain_meta(name: str) -> StructCodec:
    """The codec of metadata whose labels are left out where they have no item."""
    found = StructCodec(struct_type(name))
    found.fill()
    found.fields["labels"].keep_zero = False
    return found


_FILLED: set[str] = set()


def codec(name: str) -> StructCodec:
    """The codec of the type called `name`."""
    found = _shell(name)
    if name not in _FILLED:
        _FILLED.add(name)
        found.fill()
    return found


def decode(type_name: str, value: Any, old: Any = None) -> Tree:
    """`value` as a canonical tree of the type; DecodeError if it is not one."""
    if not isinstance(value, dict):
        raise mismatch(value, type_name)
    try:
        return codec(type_name).decode(value, old)
    except DecodeError as error:
        raise _first_hard(codec(type_name), value) or error from None


def _first_hard(struct: StructCodec, value: Any) -> DecodeError | None:
    """Go notes a plain mismatch and reads on; an error of a type that reads itself ends reading."""
    if not isinstance(value, dict):
        return None
    for key, item in value.items():
        found = struct.fields.get(key)
        if found is None or item is None:
            continue
        error = _hard_in(found, item)
        if error is not None:
            error.within(struct.type.short, key)
            return error
    return None


def _hard_in(found: FieldCodec, item: Any) -> DecodeError | None:
    if found.struct is not None:
        return _first_hard(found.struct, item)
    if found.element is not None:
        parts: Iterable[Any] = ()
        if found.kind == Kind.LIST and isinstance(item, list):
            parts = item
        elif found.kind == Kind.MAP and isinstance(item, dict):
            parts = item.values()
        for part in parts:
            error = None if part is None else _hard_in(found.element, part)
            if error is not None:
                return error
        return None
    if found.kind in (Kind.QUANTITY, Kind.TIME, Kind.MICRO_TIME, Kind.INT_OR_STRING):
        try:
            found.leaf(item)
        except DecodeError as error:
            return error
    return None


_QUANTITY_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)


def _schema_or(value: Any, other: str) -> Any:
    """A schema, or what else may stand in its place: "Array", "Bool" or "StringArray"."""
    if isinstance(value, dict):
        return codec(_SCHEMA).decode(value, None)
    if other == "Bool" and not isinstance(value, bool):
        raise DecodeError("boolean or JSON schema expected")
    if other != "Array":
        return value
    if not isinstance(value, list):
        return None  # read as neither
    for item in value:
        if item is not None and not isinstance(item, dict):
            raise mismatch(item, "v1.JSONSchemaProps")
    return [codec(_SCHEMA).decode(item or {}, None) for item in value]


def _quantity(value: Any) -> str:
    if isinstance(value, bool):
        raise DecodeError(_QUANTITY_RULE)
    if isinstance(value, int | float):
        value = str(value)
    if not isinstance(value, str):
        raise DecodeError(_QUANTITY_RULE)
    try:
        text = str(quantity.parse(value.strip()))
    except ValueError as error:
        raise DecodeError(str(error)) from None
    return value if text == value else text


_TIME_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_TIME_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def _time_error(value: str, layout: str) -> DecodeError:
    where, rest = _parse_stop(value, layout)
    return DecodeError(f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{where}"')


def _parse_stop(value: str, layout: str) -> tuple[str, str]:
    """The layout element at which Go's time parser stops, and the text left there."""
    parts = [
        ("2006", r"\d{4}"),
        ("-", "-"),
        ("01", r"\d\d"),
        ("-", "-"),
        ("02", r"\d\d"),
        ("T", "T"),
        ("15", r"\d\d"),
        (":", ":"),
        ("04", r"\d\d"),
        (":", ":"),
        ("05", r"\d\d"),
    ]
    if layout == _MICRO_LAYOUT:
        parts.append((".000000", r"\.\d{6}"))
    else:
        parts.append(("", r"(\.\d+)?"))
    parts.append(("Z07:00", r"(Z|[+-]\d\d:\d\d)"))
    rest = value
    for name, form in parts:
        match = re.match(form, rest)
        if match is None:
            return name, rest
        rest = rest[match.end() :]
    return "", rest


def _time(value: Any) -> str | None:
    if not isinstance(value, str):
        raise mismatch(value, "string")
    if _TIME_FORM.fullmatch(value):
        try:
            parse_time(value)
        except ValueError:
            raise _time_error(value, _TIME_LAYOUT) from None
        return value
    try:
        return format_time(parse_time(value))
    except ValueError:
        raise _time_error(value, _TIME_LAYOUT) from None


_MICRO_FORM = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


def _micro_time(value: Any) -> str | None:
    if not isinstance(value, str):
        raise mismatch(value, "string")
    if not _MICRO_FORM.fullmatch(value):
        raise _time_error(value, _MICRO_LAYOUT)
    try:
        text = format_micro_time(parse_time(value))
    except ValueError:
        raise _time_error(value, _MICRO_LAYOUT) from None
    return value if text == value else text


def _byte(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise mismatch(value, "uint8")
    if not 0 <= value <= 0xFF or isinstance(value, float):
        text = value.text if isinstance(value, WrittenFloat) else go_number(value)
        raise DecodeError(found=f"number {text}", wanted="uint8")
    return value


def _bytes(value: Any) -> str:
    if isinstance(value, list):
        return base64.b64encode(bytes(map(_byte, value))).decode()
    if not isinstance(value, str):
        raise mismatch(value, "[]uint8")
    try:
        return canonical(value)
    except ValueError as error:
        raise DecodeError(str(error)) from None


_LEAVES_READ: dict[int, Callable[[FieldCodec, Any], Any]] = {
    Kind.STRING: FieldCodec._text,
    Kind.BOOL: FieldCodec._boolean,
    Kind.INT: FieldCodec._integer,
    Kind.NUMBER: FieldCodec._number,
    Kind.OPAQUE: FieldCodec._opaque,
    Kind.QUANTITY: lambda _, value: _quantity(value),
    Kind.TIME: lambda _, value: _time(value),
    Kind.MICRO_TIME: lambda _, value: _micro_time(value),
    Kind.INT_OR_STRING: FieldCodec._integer_or_text,
    Kind.BYTES: lambda _, value: _bytes(value),
}

# Go reads these two whatever the case of their letters.
_META_KEYS = {"apiversion": "apiVersion", "kind": "kind"}


def kind_error(body: Tree) -> str:
    """Return why the apiVersion and kind of a body cannot be read; "" if they can, or are missing."""
    for key in body:
        value = body[key]
        name = _META_KEYS.get(key.lower())
        if name is not None and value is not None and not isinstance(value, str):
            return (
                "couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{json_type(value)} into Go struct field .{name} of type string"
            )
    return ""


def strict_issues(type_name: str, value: Any) -> list[str]:
    """Unknown and duplicate fields of `value` as strict decoding words them, in body order."""
    issues: list[str] = []
    _struct_issues(codec(type_name), value, "", issues)
    return issues


_LEAVES = frozenset((str, int, bool, float, type(None)))
"""The types without fields."""


def _struct_issues(struct: StructCodec, value: Any, path: str, issues: list[str]) -> None:
    if not isinstance(value, dict):
        return
    seen: set[str] = set()
    if len(value) > FEW:
        spend(len(value) * (1 + (len(path) >> 9)))
    for key, item in value.pairs if isinstance(value, PairsDict) else value.items():
        place = f"{path}.{key}" if path else key
        found = struct.fields.get(key)
        if found is None:
            issues.append(f"unknown field {quote(place)}")
            continue
        if key in seen:
            issues.append(f"duplicate field {quote(place)}")
        seen.add(key)
        if type(item) not in _LEAVES:
            _field_issues(found, item, place, issues)


def _field_issues(found: FieldCodec, item: Any, place: str, issues: list[str]) -> None:
    if found.struct is not None:
        _struct_issues(found.struct, item, place, issues)
    elif found.kind == Kind.LIST and isinstance(item, list) and found.element is not None:
        if found.element.struct is not None or found.element.element is not None:
            spend(len(item) * (_STRUCT + (len(place) >> 7)))
            for index, entry in enumerate(item):
                if type(entry) in _LEAVES:
                    continue
                _field_issues(found.element, entry, f"{place}[{index}]", issues)
    elif found.kind == Kind.MAP and isinstance(item, dict) and found.element is not None:
        seen: set[str] = set()
        repeated = isinstance(item, PairsDict)
        if not repeated and found.element.struct is None and found.element.element is None:
            return
        spend(len(item) * (_STRUCT + (len(place) >> 7)))
        for key, entry in item.pairs if isinstance(item, PairsDict) else item.items():
            if not repeated and type(entry) in _LEAVES:
                continue
            inner = f"{place}.{key}"
            if key in seen:
                issues.append(f'duplicate field "{inner}"')
            seen.add(key)
            if type(entry) not in _LEAVES:
                _field_issues(found.element, entry, inner, issues)
