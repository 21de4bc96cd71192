"""Check of a decoded event's `data` against the vocabulary, so that readers may rely on its types.

The schemas of `vocabulary` become msgspec types, which check in C. Keys that the vocabulary does not know are
allowed: events may join more data without a new version.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired, TypedDict

import msgspec

from controlplane.logs.vocabulary import EVENTS, Kind

__all__ = ["LARGEST", "check_data"]

LARGEST: Final = (1 << 63) - 1
"""Counts, versions and times in nanoseconds are 64-bit integers, as in Kubernetes."""
HEADER: Final = "log"
_COUNT: Final = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
_NUMBER: Final = Annotated[int, msgspec.Meta(ge=-LARGEST - 1, le=LARGEST)]


def _type_of(schema: dict[str, Any]) -> Any:
    """The msgspec type of a schema of the vocabulary's subset of JSON Schema."""
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    kind = schema["type"]
    if kind == "array":
        return list[_type_of(schema["items"])]  # type: ignore[misc]
    if kind == "object":
        if "properties" in schema:
            required = frozenset(schema["required"])
            return _fields(
                {
                    name if name in required else f"{name}?": each
                    for name, each in schema["properties"].items()
                }
            )
        more = schema.get("additionalProperties")
        return dict[str, _type_of(more) if more else Any]  # type: ignore[misc]
    if kind == "integer":
        return _COUNT if schema.get("minimum") == 0 else _NUMBER
    return {"string": str, "boolean": bool}[kind]


def _fields(data: dict[str, dict[str, Any]]) -> Any:
    """The msgspec type of an object with these fields; "?" ends the name of an optional one."""
    types = {
        name.removesuffix("?"): NotRequired[_type_of(schema)]
        if name.endswith("?")
        else _type_of(schema)
        for name, schema in data.items()
    }
    return TypedDict("Data", types)  # type: ignore[operator]


def _checked(name: str, kind: Kind) -> Any:
    """The type of an event's data. The header may lack any: readers ask each of its keys, and older ones had fewer."""
    if name == HEADER:
        return _fields({f"{key.removesuffix('?')}?": schema for key, schema in kind.data.items()})
    return _fields(kind.data)


_TYPES: Final = {name: _checked(name, kind) for name, kind in EVENTS.items() if kind.data}
_convert: Final = msgspec.convert


def check_data(event: str, data: dict[str, Any]) -> None:
    """Check the data of an event; a step has none. Raises msgspec.ValidationError."""
    wanted = _TYPES.get(event)
    if wanted is not None:
        _convert(data, wanted)
