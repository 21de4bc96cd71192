"""String formats that schemas of custom resources may name, as the API server checks them.

Sources: kube-openapi pkg/validation/strfmt (the checks) and apiextensions-apiserver
pkg/apiserver/validation/formats.go (the formats that a definition may use, by release).
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable
from typing import Final

from controlplane.api.durations import parse_duration
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.custom.email_addresses import is_email
from controlplane.apiserver.kinds.custom.request_uris import is_request_uri
from controlplane.apiserver.schema import go_regexp
from controlplane.apiserver.schema.work import spend

__all__ = ["is_recognized", "string_format"]

_NUMBER_FORMATS: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def _normalized(form: str) -> str:
    """Return the name of a format without dashes, as the registry of formats knows it."""
    return form.replace("-", "")


def is_recognized(schema: Tree) -> bool:
    """Return whether the API server acts on the format of a schema; other formats are ignored with a warning."""
    form = schema.get("format", "")
    kind = "" if schema.get(_INT_OR_STRING) else schema.get("type", "")
    if kind in ("", "string"):
        return not form or _normalized(form) in _STRING_FORMATS
    return not form or form in _NUMBER_FORMATS.get(kind, ())


def string_format(form: str) -> Callable[[str], bool] | None:
    """Return the check of a format for strings, or None for an unknown format."""
    return _STRING_FORMATS.get(_normalized(form))


def _matching(pattern: str) -> Callable[[str], bool]:
    """Return a check by a regular expression of Go's, compiled when it is first needed."""

    def check(text: str) -> bool:
        return bool(go_regexp.compiled(pattern).found(text))

    return check


# -- network -------------------------------------------------------------------------------------


def _sloppy(text: str) -> str:
    """Return an IPv4 address without leading zeros in its parts, which older Go versions accepted."""
    return ".".join(part.lstrip("0") or "0" if part.isdigit() else part for part in text.split("."))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if "%" in text:  # Go's net.ParseIP takes no zone
        return None
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_ipv4(text: str) -> bool:
    if "." not in text:
        return False
    head, colon, tail = text.rpartition(":")
    return _address(head + colon + _sloppy(tail)) is not None


def _is_ipv6(text: str) -> bool:
    return ":" in text and _address(text) is not None


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    found = _address(_sloppy(address) if ":" not in address else address)
    if found is None or not slash or not re.fullmatch(r"[0-9]{1,7}", length):
        return False
    return int(length) <= found.max_prefixlen


_MAC_LENGTHS: Final = (6, 8, 20)
_MAC_PARTS: Final = (
    (":", re.compile("[0-9A-Fa-f]{2}")),
    ("-", re.compile("[0-9A-Fa-f]{2}")),
    (".", re.compile("[0-9A-Fa-f]{4}")),
)


def _is_mac(text: str) -> bool:
    """Check a hardware address as net.ParseMAC does: 48, 64 or 160 bits in bytes, or in pairs with dots."""
    for separator, form in _MAC_PARTS:
        parts = text.split(separator)
        if len(parts) > 1:
            length = len("".join(parts)) // 2
            return length in _MAC_LENGTHS and all(map(form.fullmatch, parts))
    return False


_HOSTNAME: Final = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}"
    r"([a-zA-Z\p{L}]){2,63})$"
)
_LONGEST_HOSTNAME: Final = 255
_LONGEST_LABEL: Final = 63


def _is_hostname(text: str) -> bool:
    if not go_regexp.compiled(_HOSTNAME).found(text):
        return False
    raw = text.encode()
    return len(raw) <= _LONGEST_HOSTNAME and all(
        len(label) <= _LONGEST_LABEL for label in raw.split(b".")
    )


# -- times ---------------------------------------------------------------------------------------


def _is_date(text: str) -> bool:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    year, month, day = (int(part) for part in text.split("-"))
    try:
        datetime.date(year or 4, month, day)  # Go's year 0 is a leap year, which Python has not
    except ValueError:
        return False
    return True


_CLOCK: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")


def _is_date_time(text: str) -> bool:
    """Check a date and a time; a leap second and hour 24 are refused, an offset is not looked at."""
    date, separator, rest = text.lower().partition("t")
    if not separator or not _is_date(date):
        return False
    clock = _CLOCK.fullmatch(rest.partition("t")[0])
    return clock is not None and clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"


_UNITS: Final = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
"""Units of durations; the last word of each is taken as the beginning of a longer word, too."""
_SPAN: Final = re.compile(r"(?<![0-9])([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)")
_MOST: Final = 1 << 63
_MOST_DIGITS: Final = 19


def _is_duration(text: str) -> bool:
    """Check a Go duration, or any text that holds at least one number with a unit such as `3 days`."""
    try:
        parse_duration(text)
    except ValueError:
        pass
    else:
        return True
    spend(len(text) >> 4)
    known = False
    for number, word in _SPAN.findall(text):
        if len(number.lstrip("0")) > _MOST_DIGITS or int(number) >= _MOST:
            return False
        unit = word.lower()
        known = known or any(unit in unit_of or unit.startswith(unit_of[-1]) for unit_of in _UNITS)
    return known


# -- numbers with check digits -------------------------------------------------------------------

_CARD: Final = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)


def _is_credit_card(text: str) -> bool:
    digits = re.sub("[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) << (place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(place * value for place, value in enumerate(values, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\t\n\f\r -]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits)) % 10 == 0


# -- the table -----------------------------------------------------------------------------------

_HEX8: Final = "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?"
_HEX12: Final = "-?[0-9a-f]{12}$"
_BYTE_VALUE: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_SHORT_NAME: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LONGEST_SHORT_NAME: Final = 63
_LONGEST_LONG_NAME: Final = 253
_SSN_LENGTH: Final = 11


def _within(length: int, check: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: len(text.encode()) <= length and check(text)


_STRING_FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matching("^[0-9a-fA-F]{24}$"),
    "byte": _matching(
        "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"
    ),
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _is_date_time,
    "duration": _is_duration,
    "email": is_email,
    "hexcolor": _matching("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": _within(_LONGEST_LONG_NAME, _matching(rf"^{_SHORT_NAME}(\.{_SHORT_NAME})*$")),
    "k8sshortname": _within(_LONGEST_SHORT_NAME, _matching(f"^{_SHORT_NAME}$")),
    "mac": _is_mac,
    "password": lambda _: True,
    "rgbcolor": _matching(rf"^rgb\({_BYTE_VALUE},{_BYTE_VALUE},{_BYTE_VALUE}\)$"),
    "ssn": _within(_SSN_LENGTH, _matching(r"^\d{3}[- ]\d{2}[- ]\d{4}$")),
    "uri": is_request_uri,
    "uuid": _matching(f"{_HEX8}[0-9a-f]{{4}}-?[0-9a-f]{{4}}{_HEX12}"),
    "uuid3": _matching(f"{_HEX8}3[0-9a-f]{{3}}-?[0-9a-f]{{4}}{_HEX12}"),
    "uuid4": _matching(f"{_HEX8}4[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}{_HEX12}"),
    "uuid5": _matching(f"{_HEX8}5[0-9a-f]{{3}}-?[89ab][0-9a-f]{{3}}{_HEX12}"),
}
"""Checks by normalized name. The two names of Kubernetes joined in 1.34."""
