"""Objects of types that expressions write down: what mutations of admission policies are made of.

Upstream: apiserver pkg/cel/mutation, where `JSONPatch` has four fields, and `Object` and whatever is
reached from it by names of fields (`Object.spec.template`) have any.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from attrs import frozen

from controlplane.apiserver.kinds.custom.cel.conversions import to_string
from controlplane.apiserver.kinds.custom.cel.maps import items_of
from controlplane.apiserver.kinds.custom.cel.tree import CelError
from controlplane.apiserver.kinds.custom.cel.types import DYN, STRING, Type
from controlplane.apiserver.kinds.custom.cel.values import Optional

__all__ = ["PATCHES", "Struct", "check_names", "json_of", "struct_type"]

PATCHES: Final = "@patches"
"""Among the types of an expression's variables: it may write such objects down."""
JSON_PATCH: Final = Type(
    "JSONPatch", fields={"op": STRING, "path": STRING, "from": STRING, "value": DYN}
)


@frozen(eq=False)
class _Anything(Mapping[str, Type]):
    """Fields of any name and type."""

    def __getitem__(self, _name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Struct(dict[str, Any]):
    """An object with its fields; `type_name` is as it was written."""

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.type_name = type_name


@lru_cache(maxsize=1024)
def struct_type(name: str) -> Type | None:
    """The type of a name; None if there is none such."""
    if name == JSON_PATCH.name:
        return JSON_PATCH
    if name == "Object" or name.startswith("Object."):
        return Type(name, fields=_Anything())
    return None


def check_names(value: Any, name: str) -> None:
    """CelError unless every object within has the type of the place that it stands at."""
    if isinstance(value, Struct):
        if value.type_name != name:
            raise CelError(
                f'unexpected type name "{value.type_name}", expected "{name}", which matches field name path'
                " from root Object type"
            )
        for field, part in value.items():
            check_names(part, f"{name}.{field}")
    elif isinstance(value, list):
        for part in value:
            check_names(part, name)


def json_of(value: Any) -> Any:
    """A value as JSON has it. CelError."""
    if isinstance(value, dict):
        return {to_string(key): json_of(part) for key, part in items_of(value)}
    if isinstance(value, list):
        return [json_of(part) for part in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, Optional):
        return json_of(value.value) if value.present else None
    raise CelError(f"unsupported conversion of {type(value).__name__} to JSON")
