"""What the functions of expressions do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from math import isfinite
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import frozen

from controlplane.api import quantity
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.custom.cel.network import (
    CIDR_METHODS,
    Address,
    Network,
    Url,
    is_address,
    is_canonical,
    is_network,
    is_url,
    read_address,
    read_network,
    read_url,
)
from controlplane.apiserver.kinds.custom.cel.semver import is_semver, read_semver
from controlplane.apiserver.kinds.custom.cel.syntax import CelError, Unsigned
from controlplane.apiserver.kinds.custom.cel.values import (
    Keyed,
    Optional,
    Unordered,
    duration,
    moment,
)
from controlplane.apiserver.schema import go_regexp

__all__ = ["FUNCTIONS", "METHODS", "arithmetic", "compare", "equal"]

OVERLOAD: Final = "no such overload"


def failed(text: str) -> CelError:
    """An evaluation that failed."""
    return CelError(text)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# -- operators -----------------------------------------------------------------------------------


def equal(a: Any, b: Any) -> bool:
    """Whether two values are the same; true is not 1, and sets have no order."""
    if isinstance(a, bool) is not isinstance(b, bool):
        return False
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return False
        if isinstance(a, (Unordered, Keyed)) or isinstance(b, (Unordered, Keyed)):
            return all(contained(item, b) for item in a)
        return all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(value, b[key]) for key, value in a.items())
    if isinstance(a, Optional) and isinstance(b, Optional):
        return a.present is b.present and (not a.present or equal(a.value, b.value))
    return bool(a == b)


def contained(item: Any, where: Iterable[Any]) -> bool:
    """Whether one of these is the same as the item."""
    return any(equal(item, other) for other in where)


def compare(sign: str, a: Any, b: Any) -> bool:
    """A relation of two values. CelError."""
    if sign == "==":
        return equal(a, b)
    if sign == "!=":
        return not equal(a, b)
    if sign == "in":
        return a in b if isinstance(b, dict) else contained(a, b)
    if not ((_number(a) and _number(b)) or type(a) is type(b)):
        raise failed(OVERLOAD)
    try:
        if sign == "<":
            return bool(a < b)
        if sign == "<=":
            return bool(a <= b)
        return bool(a > b) if sign == ">" else bool(a >= b)
    except TypeError:
        raise failed(OVERLOAD) from None


def arithmetic(sign: str, a: Any, b: Any) -> Any:
    """Of two values their sum, difference, product, quotient or remainder. CelError."""
    times = isinstance(a, (datetime, timedelta)) and isinstance(b, (datetime, timedelta))
    lists = isinstance(a, list) and isinstance(b, list)
    if times and sign in "+-":
        try:
            return a + b if sign == "+" else a - b
        except TypeError:
            raise failed(OVERLOAD) from None
        except OverflowError:
            raise failed("timestamp overflow") from None
    if isinstance(a, bool) or isinstance(b, bool) or not (
        lists or type(a) is type(b) or (_number(a) and _number(b))
    ):  # fmt: skip
        raise failed(OVERLOAD)
    if not _number(a) and not (sign == "+" and isinstance(a, (str, bytes, list))):
        raise failed(OVERLOAD)
    if sign == "+":
        result = _joined(a, b) if lists else a + b
    elif sign == "-":
        result = a - b
    elif sign == "*":
        result = a * b
    elif isinstance(a, float) or isinstance(b, float):
        if sign == "%":
            raise failed(OVERLOAD)
        result = a / b if b else (float("nan") if not a else float("inf") * (1 if a > 0 else -1))
    elif not b:
        raise failed("division by zero" if sign == "/" else "modulus by zero")
    else:
        whole = abs(a) // abs(b) * (1 if (a < 0) is (b < 0) else -1)
        result = whole if sign == "/" else a - whole * b
    if isinstance(result, int):
        if isinstance(a, Unsigned) and isinstance(b, Unsigned):
            if not 0 <= result < 2**64:
                raise failed("unsigned integer overflow")
            return Unsigned(result)
        if not -(2**63) <= result < 2**63:
            raise failed("integer overflow")
    return result


def _joined(a: list[Any], b: list[Any]) -> list[Any]:
    """Two lists as one; a set takes only what it does not have."""
    if isinstance(a, Unordered):
        return Unordered([*a, *(item for item in b if not contained(item, a))])
    return [*a, *b]


# -- conversions ---------------------------------------------------------------------------------


def _to_int(value: Any) -> int:
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
        raise failed(f"type conversion error from '{value}' to '{name}'")
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise failed(f"type conversion error from '{value}' to '{name}'") from None
    except OverflowError:
        raise failed(overflow) from None
    if not low <= number <= high:
        raise failed(overflow)
    return number


_WHOLE = re.compile(r"[-+]?0*+[0-9]{1,20}")


def _to_uint(value: Any) -> Unsigned:
    if isinstance(value, datetime | timedelta):
        value = _to_int(value)
    return Unsigned(_whole_number(value, "uint", 0, (1 << 64) - 1, "unsigned integer overflow"))


_FLOAT = re.compile(r"[-+]?(?:inf|infinity|nan|[0-9.]+(?:e[-+]?[0-9]+)?)", re.IGNORECASE | re.ASCII)


def _to_double(value: Any) -> float:
    try:
        if not isinstance(value, str):
            return float(value)
        found = float(value)
        if _FLOAT.fullmatch(value) and (isfinite(found) or not value[-1:].isdigit()):
            return found
    except (TypeError, ValueError):
        pass
    raise failed(f"type conversion error from '{value}' to 'double'")


_TRUE, _FALSE = ("true", "True", "TRUE", "t", "1"), ("false", "False", "FALSE", "f", "0")


def _to_bool(value: Any) -> bool:
    if value is True or value in _TRUE:
        return True
    if value is False or value in _FALSE:
        return False
    raise failed(f"type conversion error from '{value}' to 'bool'")


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


def _to_string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, timedelta):
        return shown_duration(value)
    if isinstance(value, datetime):
        return shown_time(value)
    if isinstance(value, (str, int, float, Address, Network)):
        return str(value)
    raise failed(OVERLOAD)


def _to_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _to_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        return duration(value) if isinstance(value, str) else timedelta(microseconds=value / 1000)
    except ValueError:
        raise failed(f"type conversion error from '{value}' to 'google.protobuf.Duration'"
                     ) from None  # fmt: skip


def _to_timestamp(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str):
            if "T" not in value.upper():
                raise ValueError(value)
            return moment(value)
        return datetime.fromtimestamp(value, UTC)
    except ValueError:
        raise failed(f"type conversion error from '{value}' to 'google.protobuf.Timestamp'"
                     ) from None  # fmt: skip


def _type_name(value: Any) -> str:
    if value is None:
        return "null_type"
    known = {bool: "bool", int: "int", Unsigned: "uint", float: "double", str: "string",
             bytes: "bytes", dict: "map", timedelta: "google.protobuf.Duration",
             datetime: "google.protobuf.Timestamp", Optional: "optional_type"}  # fmt: skip
    if isinstance(value, list):
        return "list"
    if isinstance(value, int) and not isinstance(value, (bool, Unsigned)):
        return "int"
    if isinstance(value, float):
        return "double"
    return known.get(type(value), "map" if isinstance(value, dict) else type(value).__name__)


def _size(value: Any) -> int:
    if isinstance(value, (str, bytes, list, dict)):
        return len(value)
    raise failed(OVERLOAD)


def _quantity(text: str) -> quantity.Quantity:
    try:
        return quantity.parse(text)
    except quantity.QuantityError as error:
        raise failed(str(error)) from None


def _is_quantity(text: Any) -> bool:
    try:
        quantity.parse(text)
    except (quantity.QuantityError, TypeError):
        return False
    return True


def _pattern(text: str) -> go_regexp.Pattern:
    try:
        return go_regexp.compiled(text)
    except go_regexp.PatternError as error:
        raise failed(str(error)) from None


def _non_zero(value: Any) -> Optional:
    empty = value is None or value is False or (
        value in (0, "", b"") if isinstance(value, (int, float, str, bytes)) else (
            isinstance(value, (list, dict)) and not value)
    )  # fmt: skip
    return Optional() if empty else Optional(value, True)


# -- strings -------------------------------------------------------------------------------------


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        chars = list(text)
        return chars if limit < 0 or len(chars) <= limit else [
            *chars[: limit - 1], "".join(chars[limit - 1 :])
        ]  # fmt: skip
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    for at in (start, end):
        if not 0 <= at <= len(text):
            raise failed(f"index out of range: {at}")
    if start > end:
        raise failed(f"invalid substring range. start: {start}, end: {end}")
    return text[start:end]


def _char_at(text: str, at: int) -> str:
    if not 0 <= at <= len(text):
        raise failed(f"index out of range: {at}")
    return text[at : at + 1]


def _index_of(where: Any, what: Any, start: int = 0) -> int:
    if isinstance(where, str):
        return where.find(what, start)
    return next((i for i, item in enumerate(where) if equal(item, what)), -1)


def _last_index_of(where: Any, what: Any, start: int | None = None) -> int:
    if isinstance(where, str):
        return where.rfind(what) if start is None else where.rfind(what, 0, start + len(what))
    return next((i for i in reversed(range(len(where))) if equal(where[i], what)), -1)


_VERB = re.compile(r"%(?:%|(?:\.([0-9]+))?([a-zA-Z]))")
_ASCII_DOWN = {i: i + 32 for i in range(65, 91)}
_ASCII_UP = {i: i - 32 for i in range(97, 123)}


_PRECISION = 5
"""More digits no precision has: what is written counts only afterwards."""


def _format(text: str, values: list[Any]) -> str:
    left = iter(values)
    position = -1

    def one(match: re.Match[str]) -> str:
        nonlocal position
        if match[0] == "%%":
            return "%"
        position += 1
        missing = object()
        value = next(left, missing)
        if value is missing:
            raise failed(f"index {position} out of range")
        digits = match[1] or "6"
        if len(digits) > _PRECISION:
            raise failed(f"could not parse formatting clause: precision {digits[:20]} is too large")
        return _clause(match[2], int(digits), value)

    return _VERB.sub(one, text)


def _clause(verb: str, precision: int, value: Any) -> str:
    if verb == "s":
        return _shown(value)
    kind = _type_name(value)
    if verb == "d":
        if isinstance(value, int) and not isinstance(value, bool):
            return str(int(value))
        raise failed(f"error during formatting: decimal clause can only be used on integers, was "
                     f"given {kind}")  # fmt: skip
    if verb == "f" and _number(value):
        return f"{value:.{precision}f}"
    if verb == "e" and _number(value):
        return f"{value:.{precision}e}"
    if verb in "xX" and isinstance(value, (int, str, bytes)) and not isinstance(value, bool):
        raw = value.encode() if isinstance(value, str) else value
        text = raw.hex() if isinstance(raw, bytes) else f"{int(raw):x}"
        return text.upper() if verb == "X" else text
    if verb == "o" and isinstance(value, int) and not isinstance(value, bool):
        return f"{int(value):o}"
    if verb == "b" and isinstance(value, int):
        return f"{int(value):b}"
    raise failed(f'could not parse formatting clause: unrecognized formatting clause "{verb}"')


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(k)}: {_shown(value[k])}" for k in sorted(value)) + "}"
    return _to_string(value)


# -- lists ---------------------------------------------------------------------------------------


def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if not contained(item, found):
            found.append(item)
    return found


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    out: list[Any] = []
    for item in items:
        if isinstance(item, list) and depth > 0:
            out += _flatten(item, depth - 1)
        else:
            out.append(item)
    return out


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise failed(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise failed(f"cannot slice({start}, {end}), start index must be less than or equal to end "
                     "index")  # fmt: skip
    if end > len(items):
        raise failed(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


def _total(items: list[Any]) -> Any:
    total = items[0] if items else 0
    for item in items[1:]:
        total = arithmetic("+", total, item)
    return total


def _least(items: list[Any]) -> Any:
    if not items:
        raise failed("min called on empty list")
    return min(items)


def _most(items: list[Any]) -> Any:
    if not items:
        raise failed("max called on empty list")
    return max(items)


# -- named formats -------------------------------------------------------------------------------


@frozen
class NamedFormat:
    """A format that texts are validated by."""

    name: str


def _as_prefix(check: Callable[[str], Iterable[str]]) -> Callable[[str], Iterable[str]]:
    """A rule of names for their beginnings: what may follow a dash or dot is not yet there."""
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") else text)


def _matching(pattern: str, text: str) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern)
    return lambda value: [] if compiled.fullmatch(value) else [text]


def _date_time(text: str) -> list[str]:
    try:
        _to_timestamp(text)
    except CelError:
        return [f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse']
    return []


_FORMATS: Final[dict[str, Callable[[str], Iterable[str]]]] = {
    "dns1123Label": names.dns_label, "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label, "qualifiedName": names.qualified_name,
    "labelValue": names.label_value, "dns1123LabelPrefix": _as_prefix(names.dns_label),
    "dns1123SubdomainPrefix": _as_prefix(names.dns_subdomain),
    "dns1035LabelPrefix": _as_prefix(names.dns_1035_label),
    "uri": lambda text: [] if is_url(text) else [f"{text} is not a URI"],
    "uuid": _matching(r"[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}",
                      "does not match the UUID format"),
    "byte": _matching(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
                      "invalid base64"),
    "date": _matching(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", "invalid date"),
    "datetime": _date_time,
}  # fmt: skip


def _validated(form: NamedFormat, text: str) -> Optional:
    problems = list(_FORMATS[form.name](text))
    return Optional(problems, True) if problems else Optional()


def _named(name: str) -> Optional:
    return Optional(NamedFormat(name), True) if name in _FORMATS else Optional()


# -- times ---------------------------------------------------------------------------------------


def _zone(text: str) -> Any:
    match = re.fullmatch(r"([+-]?)([0-9]{2}):([0-9]{2})", text)
    try:
        if match is not None:
            offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
            return timezone(-offset if match[1] == "-" else offset)
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise failed(f"unknown time zone {text}") from None


def _of_time(part: Callable[[datetime], int]) -> Callable[..., int]:
    return lambda value, zone="UTC": part(value.astimezone(_zone(zone)))


def _of_both(part: Callable[[datetime], int], unit: timedelta) -> Callable[..., int]:
    def get(value: Any, zone: str = "UTC") -> int:
        if isinstance(value, timedelta):
            return int(value / unit)
        return part(value.astimezone(_zone(zone)))

    return get


def _order(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def _compared(a: Any, b: Any) -> int:
    return int(a.cmp(b)) if isinstance(a, quantity.Quantity) else _order(a, b)


def _amount(value: Any) -> quantity.Quantity:
    return value if isinstance(value, quantity.Quantity) else quantity.Quantity.new(value)


def _whole(value: quantity.Quantity) -> int:
    found = value.as_int64()
    if found is None:
        raise failed("cannot convert value to integer")
    return found


def _value(optional: Optional) -> Any:
    if not optional.present:
        raise failed("optional.none() dereference")
    return optional.value


_AUTHORIZER: Final = (
    "path", "group", "serviceAccount", "resource", "subresource", "namespace", "name",
    "fieldSelector", "labelSelector", "check", "allowed", "reason", "errored", "error",
)  # fmt: skip


def _asked(name: str) -> Callable[..., Any]:
    """A method of the authorizer, or of what it answered: they are handed in with the variables."""
    return lambda target, *given: getattr(target, name)(*given)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "size": _size, "int": _to_int, "uint": _to_uint, "double": _to_double, "string": _to_string,
    "bool": _to_bool, "bytes": _to_bytes, "duration": _to_duration, "timestamp": _to_timestamp,
    "dyn": lambda value: value, "type": _type_name, "quantity": _quantity,
    "isQuantity": _is_quantity,
    "matches": lambda text, pattern: _pattern(pattern).found(text, metered=True),
    "ip": read_address, "isIP": is_address, "ip.isCanonical": is_canonical,
    "cidr": read_network, "isCIDR": is_network, "url": read_url, "isURL": is_url,
    "semver": read_semver, "isSemver": is_semver,
    "sets.contains": lambda a, b: all(contained(item, a) for item in b),
    "sets.equivalent": lambda a, b: (
        all(contained(x, b) for x in a) and all(contained(x, a) for x in b)
    ),
    "sets.intersects": lambda a, b: any(contained(item, b) for item in a),
    "lists.range": lambda count: list(range(count)),
    "jsonpatch.escapeKey": lambda text: text.replace("~", "~0").replace("/", "~1"),
    "strings.quote": lambda text: json.dumps(text, ensure_ascii=False),
    "optional.of": lambda value: Optional(value, True),
    "optional.none": Optional, "optional.ofNonZeroValue": _non_zero,
    "format.named": _named,
    **{f"format.{name}": (lambda name=name: NamedFormat(name)) for name in _FORMATS},
}  # fmt: skip

METHODS: Final[dict[str, Callable[..., Any]]] = {
    "size": _size,
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
    "matches": lambda text, pattern: _pattern(pattern).found(text, metered=True),
    "lowerAscii": lambda text: text.translate(_ASCII_DOWN),
    "upperAscii": lambda text: text.translate(_ASCII_UP),
    "trim": lambda text: text.strip(),
    "split": _split,
    "join": lambda items, separator="": separator.join(items),
    "replace": lambda text, old, new, limit=-1: text.replace(old, new, limit),
    "substring": _substring, "charAt": _char_at, "format": _format,
    "indexOf": _index_of, "lastIndexOf": _last_index_of,
    "find": lambda text, pattern: _pattern(pattern).search(text, metered=True) or "",
    "findAll": lambda text, pattern, limit=-1: [
        *_pattern(pattern).each(text, metered=True)
    ][: limit if limit >= 0 else None],
    "isSorted": lambda items: all(a <= b for a, b in pairwise(items)),
    "sum": _total, "min": _least, "max": _most,
    "sort": sorted, "distinct": _distinct, "reverse": lambda items: list(reversed(items)),
    "slice": _slice, "flatten": _flatten,
    "hasValue": lambda optional: optional.present,
    "value": _value,
    "or": lambda optional, other: optional if optional.present else other,
    "orValue": lambda optional, other: optional.value if optional.present else other,
    "validate": _validated,
    "sign": lambda value: value.sign(),
    "isInteger": lambda value: value.as_int64() is not None,
    "asApproximateFloat": lambda value: value.milli_value() / 1000,
    "isGreaterThan": lambda a, b: _compared(a, b) > 0,
    "isLessThan": lambda a, b: _compared(a, b) < 0,
    "compareTo": _compared,
    "asInteger": _whole,
    "add": lambda a, b: a.add(_amount(b)),
    "sub": lambda a, b: a.sub(_amount(b)),
    "family": lambda address: address.value.version,
    "isUnspecified": lambda address: address.value.is_unspecified,
    "isLoopback": lambda address: address.value.is_loopback,
    "isLinkLocalMulticast": lambda address: address.link_local_multicast,
    "isLinkLocalUnicast": lambda address: (
        address.value.is_link_local and not address.value.is_multicast
    ),
    "isGlobalUnicast": lambda address: address.global_unicast,
    **{name: _asked(name) for name in _AUTHORIZER},
    **CIDR_METHODS,
    "getScheme": Url.scheme, "getHost": Url.host, "getHostname": Url.hostname,
    "getPort": Url.port, "getEscapedPath": Url.escaped_path, "getQuery": Url.query,
    "major": lambda version: version.major, "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
    "getFullYear": _of_time(lambda t: t.year), "getMonth": _of_time(lambda t: t.month - 1),
    "getDayOfYear": _of_time(lambda t: t.timetuple().tm_yday - 1),
    "getDayOfMonth": _of_time(lambda t: t.day - 1), "getDate": _of_time(lambda t: t.day),
    "getDayOfWeek": _of_time(lambda t: t.isoweekday() % 7),
    "getHours": _of_both(lambda t: t.hour, timedelta(hours=1)),
    "getMinutes": _of_both(lambda t: t.minute, timedelta(minutes=1)),
    "getSeconds": _of_both(lambda t: t.second, timedelta(seconds=1)),
    "getMilliseconds": _of_both(lambda t: t.microsecond // 1000, timedelta(milliseconds=1)),
}  # fmt: skip
