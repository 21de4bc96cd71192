"""The functions of expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta, timezone
from functools import cmp_to_key
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from attrs import frozen

from controlplane.api import quantity
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.custom.cel.conversions import (
    to_bool,
    to_bytes,
    to_double,
    to_duration,
    to_int,
    to_string,
    to_timestamp,
    to_uint,
    type_name,
)
from controlplane.apiserver.kinds.custom.cel.formatting import formatted
from controlplane.apiserver.kinds.custom.cel.macros import MAP_INSERT, SORT_BY
from controlplane.apiserver.kinds.custom.cel.maps import ABSENT, find, items_of, key_of
from controlplane.apiserver.kinds.custom.cel.network import (
    CIDR_METHODS,
    Url,
    is_address,
    is_canonical,
    is_network,
    is_url,
    read_address,
    read_network,
    read_url,
)
from controlplane.apiserver.kinds.custom.cel.operators import (
    OVERLOAD,
    arithmetic,
    compare,
    contained,
    equal,
    failed,
)
from controlplane.apiserver.kinds.custom.cel.semver import is_semver, read_semver
from controlplane.apiserver.kinds.custom.cel.tree import CelError
from controlplane.apiserver.kinds.custom.cel.values import Optional
from controlplane.apiserver.schema import go_regexp

__all__ = ["FUNCTIONS", "METHODS", "MOST_VALUES", "NamedFormat", "checked_literal", "pattern_of"]


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


def pattern_of(text: str) -> go_regexp.Pattern:
    """The compiled regular expression. CelError."""
    try:
        return go_regexp.compiled(text)
    except go_regexp.PatternError as error:
        raise failed(str(error)) from None


MOST_VALUES: Final = 48
"""The most values of an attribute of a device, and the most elements that `includes` looks at."""


def _includes(where: Any, item: Any) -> bool:
    """Return whether a list has the item, or another value equals it.

    Upstream: dynamic-resource-allocation cel/compile.go.
    """
    if not isinstance(where, list):
        return equal(where, item)
    if any(equal(each, item) for each in where[:MOST_VALUES]):
        return True
    if len(where) > MOST_VALUES:
        raise failed(
            f"'includes' function cannot be applied to lists longer than {MOST_VALUES} values"
        )
    return False


def _non_zero(value: Any) -> Optional:
    empty = (
        value is None
        or value is False
        or (
            value in (0, "", b"")
            if isinstance(value, (int, float, str, bytes))
            else (isinstance(value, (list, dict)) and not value)
        )
    )
    return Optional() if empty else Optional(value, True)


# -- strings -------------------------------------------------------------------------------------


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        chars = list(text)
        return (
            chars
            if limit < 0 or len(chars) <= limit
            else [*chars[: limit - 1], "".join(chars[limit - 1 :])]
        )
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


_ASCII_DOWN = {i: i + 32 for i in range(65, 91)}
_ASCII_UP = {i: i - 32 for i in range(97, 123)}


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
        raise failed(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
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
        to_timestamp(text)
    except CelError:
        return ["invalid datetime"]
    return []


_FORMATS: Final[dict[str, Callable[[str], Iterable[str]]]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_1035_label,
    "qualifiedName": names.qualified_name,
    "labelValue": names.label_value,
    "dns1123LabelPrefix": _as_prefix(names.dns_label),
    "dns1123SubdomainPrefix": _as_prefix(names.dns_subdomain),
    "dns1035LabelPrefix": _as_prefix(names.dns_1035_label),
    "uri": lambda text: [] if is_url(text) else [f"{text} is not a URI"],
    "uuid": _matching(
        r"[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}", "does not match the UUID format"
    ),
    "byte": _matching(
        r"([A-Za-z0-9+/]{4})*+([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|(?<=[A-Za-z0-9+/]{4}))",
        "invalid base64",
    ),
    "date": _matching(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", "invalid date"),
    "datetime": _date_time,
}


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


def _inserted(items: dict[Any, Any], *given: Any) -> dict[Any, Any]:
    """A map with a key and its value, or all of another map, besides what it has: it is changed."""
    for key, value in [given] if len(given) == 2 else items_of(given[0]):
        if find(items, key) is not ABSENT:
            raise failed(f"insert failed: key {to_string(key)} already exists")
        items[key_of(key)] = value
    return items


def _sorted_by(items: list[Any], keys: list[Any]) -> list[Any]:
    """A list in the order of the keys of its elements."""
    if len({type_name(key) for key in keys}) > 1:
        raise failed("list elements must have the same type")

    def order(a: int, b: int) -> int:
        return int(compare(">", keys[a], keys[b])) - int(compare("<", keys[a], keys[b]))

    return [items[index] for index in sorted(range(len(keys)), key=cmp_to_key(order))]


def _present(items: list[Any]) -> list[Any]:
    """The values of the optional values that are present."""
    return [item.value for item in items if item.present]


def checked_literal(function: str, value: Any) -> bool:
    """True unless the function refuses this constant."""
    convert = {"duration": to_duration, "timestamp": to_timestamp, "matches": pattern_of}
    try:
        convert[function](value)
    except (CelError, TypeError, AttributeError, OverflowError, OSError):
        return False
    return True


_AUTHORIZER: Final = (
    "path",
    "group",
    "serviceAccount",
    "resource",
    "subresource",
    "namespace",
    "name",
    "fieldSelector",
    "labelSelector",
    "check",
    "allowed",
    "reason",
    "errored",
    "error",
)


def _asked(name: str) -> Callable[..., Any]:
    """A method of the authorizer, or of what it answered: they are handed in with the variables."""
    return lambda target, *given: getattr(target, name)(*given)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "size": _size,
    "int": to_int,
    "uint": to_uint,
    "double": to_double,
    "string": to_string,
    "bool": to_bool,
    "bytes": to_bytes,
    "duration": to_duration,
    "timestamp": to_timestamp,
    "dyn": lambda value: value,
    "type": type_name,
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "matches": lambda text, pattern: pattern_of(pattern).found(text, metered=True),
    "ip": read_address,
    "isIP": is_address,
    "ip.isCanonical": is_canonical,
    "cidr": read_network,
    "isCIDR": is_network,
    "url": read_url,
    "isURL": is_url,
    "semver": read_semver,
    "isSemver": is_semver,
    "sets.contains": lambda a, b: all(contained(item, a) for item in b),
    "sets.equivalent": lambda a, b: (
        all(contained(x, b) for x in a) and all(contained(x, a) for x in b)
    ),
    "sets.intersects": lambda a, b: any(contained(item, b) for item in a),
    "lists.range": lambda count: list(range(count)),
    "jsonpatch.escapeKey": lambda text: text.replace("~", "~0").replace("/", "~1"),
    "strings.quote": lambda text: json.dumps(text, ensure_ascii=False),
    "optional.of": lambda value: Optional(value, True),
    "optional.none": Optional,
    "optional.ofNonZeroValue": _non_zero,
    "format.named": _named,
    "sign": lambda value: value.sign(),
    "optional.unwrap": _present,
    MAP_INSERT: _inserted,
    **{f"format.{name}": (lambda name=name: NamedFormat(name)) for name in _FORMATS},
}

METHODS: Final[dict[str, Callable[..., Any]]] = {
    "includes": _includes,
    "size": _size,
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
    "matches": lambda text, pattern: pattern_of(pattern).found(text, metered=True),
    "lowerAscii": lambda text: text.translate(_ASCII_DOWN),
    "upperAscii": lambda text: text.translate(_ASCII_UP),
    "trim": lambda text: text.strip(),
    "split": _split,
    "join": lambda items, separator="": separator.join(items),
    "replace": lambda text, old, new, limit=-1: text.replace(old, new, limit),
    "substring": _substring,
    "charAt": _char_at,
    "format": formatted,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "find": lambda text, pattern: pattern_of(pattern).search(text, metered=True) or "",
    "findAll": lambda text, pattern, limit=-1: [*pattern_of(pattern).each(text, metered=True)][
        : limit if limit >= 0 else None
    ],
    "isSorted": lambda items: all(a <= b for a, b in pairwise(items)),
    "sum": _total,
    "min": _least,
    "max": _most,
    "sort": sorted,
    "distinct": _distinct,
    "reverse": lambda items: list(reversed(items)),
    "slice": _slice,
    "flatten": _flatten,
    SORT_BY: _sorted_by,
    "first": lambda items: Optional(items[0], True) if items else Optional(),
    "last": lambda items: Optional(items[-1], True) if items else Optional(),
    "unwrapOpt": _present,
    "hasValue": lambda optional: optional.present,
    "value": _value,
    "validate": _validated,
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
    "getScheme": Url.scheme,
    "getHost": Url.host,
    "getHostname": Url.hostname,
    "getPort": Url.port,
    "getEscapedPath": Url.escaped_path,
    "getQuery": Url.query,
    "major": lambda version: version.major,
    "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
    "getFullYear": _of_time(lambda t: t.year),
    "getMonth": _of_time(lambda t: t.month - 1),
    "getDayOfYear": _of_time(lambda t: t.timetuple().tm_yday - 1),
    "getDayOfMonth": _of_time(lambda t: t.day - 1),
    "getDate": _of_time(lambda t: t.day),
    "getDayOfWeek": _of_time(lambda t: t.isoweekday() % 7),
    "getHours": _of_both(lambda t: t.hour, timedelta(hours=1)),
    "getMinutes": _of_both(lambda t: t.minute, timedelta(minutes=1)),
    "getSeconds": _of_both(lambda t: t.second, timedelta(seconds=1)),
    "getMilliseconds": _of_both(lambda t: t.microsecond // 1000, timedelta(milliseconds=1)),
}
