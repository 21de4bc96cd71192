"""Small rules that several kinds share."""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from controlplane.api.equality import remembered
from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.apiserver.schema.field_errors import FieldError, Raw, invalid

__all__ = ["ACCESS_MODES", "VOLUME_MODES", "at_most_full", "cidr_problems", "immutable", "int_or_percent",
           "interface", "non_negative",
           "non_negative_field", "redacted", "scaled"]  # fmt: skip

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')"
)


def non_negative(value: int, path: str) -> list[FieldError]:
    """Zero or more."""
    if value >= 0:
        return []
    return [invalid(path, value, "must be greater than or equal to 0")]


def non_negative_field(tree: Tree, key: str, path: str) -> list[FieldError]:
    """The field, if there, is zero or more."""
    value = tree.get(key)
    return [] if value is None else non_negative(value, f"{path}.{key}")


def int_or_percent(value: int | str, path: str) -> list[FieldError]:
    """A count or a percentage."""
    if isinstance(value, str):
        return [] if _PERCENT.fullmatch(value) else [invalid(path, value, _PERCENT_TEXT)]
    return non_negative(value, path)


def at_most_full(value: int | str | None, path: str) -> list[FieldError]:
    """A percentage of at most 100."""
    if isinstance(value, str) and _PERCENT.fullmatch(value) and _percentage(value) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def scaled(value: int | str | None) -> int:
    """The number of a count or percentage; 0 for a text that is neither."""
    if isinstance(value, str):
        return _percentage(value) if _PERCENT.fullmatch(value) else parse_int64(value) or 0
    return value or 0


def _percentage(text: str) -> int:
    """The number before the sign; the largest of 64 bits for what is larger, as Go's Atoi has it."""
    number = parse_int64(text[:-1])
    return _LARGEST if number is None else number


_LARGEST = (1 << 63) - 1


@remembered(4096)
def interface(text: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    """An address and the block that it is in; ValueError for an invalid one."""
    return ipaddress.ip_interface(text)


def cidr_problems(text: str) -> tuple[str, ...]:
    """A block of addresses, named by its first one. Upstream: gate StrictIPCIDRValidation."""
    if "/" in text:
        try:
            block = interface(text)
        except ValueError:
            pass
        else:
            if block.ip == block.network.network_address:
                return ()
            return ("must not have bits set beyond the prefix length",)
    return ("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",)


def immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    """The value may not change."""
    return [] if new == old else [invalid(path, new, "field is immutable")]


def redacted(path: str, detail: str) -> FieldError:
    """A value that is not shown."""
    return FieldError("FieldValueInvalid", path, Raw(""), detail)
