"""Conversions of values to other types.

Upstream: cel-go common/types.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from math import isfinite, isinf, isnan
from typing import Any

from controlplane.apiserver.kinds.custom.cel.network import Address, Network
from controlplane.apiserver.kinds.custom.cel.operators import OVERLOAD, failed
from controlplane.apiserver.kinds.custom.cel.tree import Unsigned
from controlplane.apiserver.kinds.custom.cel.values import Optional, duration, moment

__all__ = [
    "GO_TYPES",
    "to_bool",
    "to_bytes",
    "to_double",
    "to_duration",
    "to_int",
    "to_string",
    "to_timestamp",
    "to_uint",
    "type_name",
]


def to_int(value: Any) -> int:
    """The whole number of a text, another number or a time. CelError."""
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1) * 1000
    return _whole_number(value, "int", -(1 << 63), (1 << 63) - 1, "integer overflow")


def _whole_number(value: Any, name: str, low: int, high: int, overflow: str) -> int:
    """A whole number of a text or another number."""
    if isinstance(value, str):
        if _WHOLE.fullmatch(value) and low <= int(value) <= high:
            return int(value)
        raise failed(f"type conversion error from '{type_name(value)}' to '{name}'")
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise failed(f"type conversion error from '{type_name(value)}' to '{name}'") from None
    except OverflowError:
        raise failed(overflow) from None
    if not low <= number <= high:
        raise failed(overflow)
    return number


_WHOLE = re.compile(r"[-+]?(?=[0-9])0*+[0-9]{0,20}")


def to_uint(value: Any) -> Unsigned:
    """The unsigned number of a text, another number or a time. CelError."""
    if isinstance(value, datetime | timedelta):
        value = to_int(value)
    return Unsigned(_whole_number(value, "uint", 0, (1 << 64) - 1, "unsigned integer overflow"))


_FLOAT = re.compile(r"[-+]?(?:inf|infinity|nan|[0-9.]+(?:e[-+]?[0-9]+)?)", re.IGNORECASE | re.ASCII)


def to_double(value: Any) -> float:
    """The number of a text or another number. CelError."""
    try:
        if not isinstance(value, str):
            return float(value)
        found = float(value)
        if _FLOAT.fullmatch(value) and (isfinite(found) or not value[-1:].isdigit()):
            return found
    except (TypeError, ValueError):
        pass
    raise failed(f"type conversion error from '{type_name(value)}' to 'double'")


_TRUE, _FALSE = ("true", "True", "TRUE", "t", "1"), ("false", "False", "FALSE", "f", "0")


def to_bool(value: Any) -> bool:
    """The truth value that a text names. CelError."""
    if value is True or value in _TRUE:
        return True
    if value is False or value in _FALSE:
        return False
    raise failed(f"type conversion error from '{type_name(value)}' to 'bool'")


def shown_duration(value: timedelta) -> str:
    """Seconds with a unit."""
    micros = value // timedelta(microseconds=1)
    whole, rest = divmod(abs(micros), 10**6)
    digits = f".{rest:06d}".rstrip("0").rstrip(".") if rest else ""
    return f"{'-' if micros < 0 else ''}{whole}{digits}s"


def shown_time(value: datetime) -> str:
    """RFC 3339, fractions only when there are some."""
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"


_EXPONENT_FROM = 6


def shown_double(value: float) -> str:
    """A number with the fewest digits that identify it, with an exponent from a million on, as Go's %g."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    digits = repr(abs(value)).partition("e")[0].replace(".", "").strip("0") or "0"
    mantissa, _, exponent = f"{value:.{len(digits) - 1}e}".partition("e")
    power = int(exponent)
    if -4 <= power < _EXPONENT_FROM:
        return f"{value:.{max(len(digits) - 1 - power, 0)}f}"
    return f"{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def to_string(value: Any) -> str:
    """The text of a value. CelError."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return shown_double(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise failed("invalid UTF-8 in bytes, cannot convert to string") from None
    if isinstance(value, timedelta):
        return shown_duration(value)
    if isinstance(value, datetime):
        return shown_time(value)
    if isinstance(value, (str, int, float, Address, Network)):
        return str(value)
    raise failed(OVERLOAD)


def to_bytes(value: Any) -> bytes:
    """The bytes of a text. CelError."""
    return value if isinstance(value, bytes) else value.encode()


def to_duration(value: Any) -> timedelta:
    """The duration of a text; the one of a number is declared, but fails. CelError."""
    if isinstance(value, timedelta):
        return value
    try:
        if isinstance(value, str):
            return duration(value)
    except ValueError:
        pass
    raise failed(f"type conversion error from '{type_name(value)}' to 'google.protobuf.Duration'")


def to_timestamp(value: Any) -> datetime:
    """The time of a text or of seconds. CelError."""
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str):
            if "T" not in value.upper():
                raise ValueError(value)
            return moment(value)
        return datetime.fromtimestamp(value, UTC)
    except ValueError:
        raise failed(
            f"type conversion error from '{type_name(value)}' to 'google.protobuf.Timestamp'"
        ) from None


GO_TYPES = {
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
}
"""The names of upstream's own types of values, which appear in some failures."""


def type_name(value: Any) -> str:
    """The name of the type of a value."""
    if value is None:
        return "null_type"
    known = {
        bool: "bool",
        int: "int",
        Unsigned: "uint",
        float: "double",
        str: "string",
        bytes: "bytes",
        dict: "map",
        timedelta: "google.protobuf.Duration",
        datetime: "google.protobuf.Timestamp",
        Optional: "optional_type",
    }
    if isinstance(value, list):
        return "list"
    if isinstance(value, int) and not isinstance(value, (bool, Unsigned)):
        return "int"
    if isinstance(value, float):
        return "double"
    return known.get(type(value), "map" if isinstance(value, dict) else type(value).__name__)
