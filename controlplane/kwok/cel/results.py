"""The results that stages and metrics take from their expressions, each with upstream's refusal of other types.

Upstream: pkg/utils/cel/environment.go (`AsBool`, `AsInt64`, `AsDuration`, `AsFloat64`, `AsString`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controlplane.api.durations import DurationError, parse_duration
from controlplane.api.quantity import Quantity
from controlplane.apiserver.kinds.custom.cel.conversions import GO_TYPES, to_int, type_name
from controlplane.kwok.cel.objects import GoObject, ResourceList

__all__ = ["ExpressionError", "as_bool", "as_duration", "as_float", "as_int", "as_string"]


class ExpressionError(ValueError):
    """An expression that cannot be compiled or evaluated; the text is upstream's."""


def _unsupported(name: str, value: Any) -> ExpressionError:
    if isinstance(value, GoObject):
        kind = "*easycel.structObject"
    elif isinstance(value, ResourceList | Quantity):
        kind = f"cel.{type(value).__name__}"
    else:
        kind = GO_TYPES.get(type_name(value), "*types.Type")
    return ExpressionError(f"cel.{name} unsupported type: {kind}")


def as_bool(value: Any) -> bool:
    """Return a value that must be a boolean. Raises ExpressionError."""
    if not isinstance(value, bool):
        raise _unsupported("AsBool", value)
    return value


def as_int(value: Any) -> int:
    """Return a weight: whole numbers, fractions cut, booleans, durations in nanoseconds. Raises ExpressionError."""
    if isinstance(value, (bool, int, float)):
        return int(value)
    if isinstance(value, timedelta):
        return to_int(value)
    raise _unsupported("AsInt64", value)


def as_duration(value: Any) -> int:
    """Return a delay in nanoseconds: durations, their texts, or numbers of nanoseconds. Raises ExpressionError."""
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except DurationError as error:
            raise ExpressionError(str(error)) from None
    if isinstance(value, timedelta):
        return to_int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value)
    raise _unsupported("AsDuration", value)


def as_float(value: Any) -> float:
    """Return the value of a metric: numbers, booleans, quantities, durations in nanoseconds. Raises ExpressionError."""
    if isinstance(value, (bool, int, float)):
        return float(value)
    if isinstance(value, timedelta):
        return float(to_int(value))
    if isinstance(value, Quantity):
        return value.approximate_float()
    raise _unsupported("AsFloat64", value)


def as_string(value: Any) -> str:
    """Return the value of a label, which must be a text. Raises ExpressionError."""
    if not isinstance(value, str):
        raise _unsupported("AsString", value)
    return value
