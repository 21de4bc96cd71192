"""The small rules that the rules of kinds are made of, each as one call that returns its errors.

A rule of a kind reads as a list of such calls, in the order in which upstream reports: `errors += word(...)`.
A value is `present`, a name (`name_at`, `named`), one of some words (`one_of`, `optional_one_of`,
`needed_one_of`, `word`, `choice`), `immutable`, `non_negative`, `at_most` so many, `no_longer` than so much.
`problems` makes errors of the texts that a function of `names` gives; `when` makes one error of any kind
where a condition holds. `entries` walks a list with the place of each item. What depends on several fields
stays an `if`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec

from controlplane.api.equality import remembered
from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.apiserver.kinds import names
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    Raw,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)

__all__ = [
    "ACCESS_MODES",
    "VOLUME_MODES",
    "at_most",
    "at_most_full",
    "choice",
    "cidr_problems",
    "entries",
    "exclusive_star",
    "immutable",
    "int_or_percent",
    "interface",
    "local_descending_path",
    "local_name_path",
    "name_at",
    "named",
    "needed_one_of",
    "no_longer",
    "non_negative",
    "non_negative_field",
    "one_of",
    "optional_one_of",
    "path_no_backsteps",
    "present",
    "problems",
    "redacted",
    "repeated",
    "scaled",
    "when",
    "word",
]

_Parts = ParamSpec("_Parts")
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
_PERCENT = re.compile(r"[0-9]+%")
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or "
    "'93%', regex used for validation is '[0-9]+%')"
)


# -- the language


def when(
    bad: object, error: Callable[_Parts, FieldError], *parts: _Parts.args, **options: _Parts.kwargs
) -> list[FieldError]:
    """Return the error made of the parts where the condition holds; it is not made where it does not."""
    return [error(*parts, **options)] if bad else []


def present(tree: Tree, key: str, path: str, detail: str = "") -> list[FieldError]:
    """The field is there and not empty."""
    return [] if tree.get(key) else [required(f"{path}.{key}" if path else key, detail)]


def problems(path: str, value: Any, texts: Iterable[str]) -> list[FieldError]:
    """One violation for each text."""
    return [invalid(path, value, text) for text in texts]


def name_at(
    value: Any, path: str, rule: Callable[[Any], names.Problems], *, detail: str = ""
) -> list[FieldError]:
    """The value is there, and right by the rule for a name or a number."""
    return problems(path, value, rule(value)) if value else [required(path, detail)]


def named(
    tree: Tree, key: str, path: str, rule: Callable[[str], names.Problems] = names.dns_subdomain
) -> list[FieldError]:
    """The field is there, and a name by the rule."""
    return name_at(tree.get(key) or "", f"{path}.{key}", rule)


def one_of(
    value: Any, path: str, allowed: tuple[str, ...], *, sort: bool = True
) -> list[FieldError]:
    """The value is one of the words, which are sorted when listed."""
    return [] if value in allowed else [not_supported(path, value, allowed, sort=sort)]


def optional_one_of(
    value: Any, path: str, allowed: tuple[str, ...], *, sort: bool = True
) -> list[FieldError]:
    """The value, if there is one, is one of the words."""
    return [] if value is None else one_of(value, path, allowed, sort=sort)


def needed_one_of(value: Any, path: str, allowed: tuple[str, ...]) -> list[FieldError]:
    """The value is there and one of the words; an empty one is a wrong word."""
    return [required(path)] if value is None else one_of(value, path, allowed)


def word(value: Any, path: str, allowed: tuple[str, ...], *, sort: bool = True) -> list[FieldError]:
    """The value is there and one of the words; an empty one is missing."""
    if value in allowed:
        return []
    return [not_supported(path, value, allowed, sort=sort) if value else required(path)]


def choice(
    tree: Tree, key: str, path: str, allowed: tuple[str, ...], *, needed: bool = True
) -> list[FieldError]:
    """The field is one of the words; sorted when listed. One that is not needed may be left out."""
    rule = word if needed else optional_one_of
    return rule(tree.get(key), f"{path}.{key}" if path else key, allowed)


def immutable(new: Any, old: Any, path: str) -> list[FieldError]:
    """The value may not change."""
    return [] if new == old else [invalid(path, new, "field is immutable")]


def redacted(path: str, detail: str) -> FieldError:
    """A value that is not shown."""
    return FieldError("FieldValueInvalid", path, Raw(""), detail)


def at_most(items: Any, path: str, limit: int) -> list[FieldError]:
    """A list, if there is one, has no more items than the limit."""
    return [too_many(path, len(items), limit)] if items and len(items) > limit else []


def no_longer(text: Any, path: str, limit: int) -> list[FieldError]:
    """A text has no more characters than the limit."""
    return [too_long(path, limit)] if len(text) > limit else []


def entries(tree: Tree, key: str, path: str) -> Iterator[tuple[Any, str]]:
    """The items of a list, each with its place."""
    place = f"{path}.{key}" if path else key
    for index, item in enumerate(tree.get(key) or ()):
        yield item, f"{place}[{index}]"


def repeated(items: Iterable[tuple[Any, str]]) -> list[FieldError]:
    """Values (with their places) that stood before; empty ones may repeat."""
    seen: set[Any] = set()
    errors = []
    for value, place in items:
        if value and value in seen:
            errors.append(duplicate(place, value))
        seen.add(value)
    return errors


def exclusive_star(values: list[str], path: str, others: str) -> list[FieldError]:
    """A wildcard stands alone."""
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {others}")]
    return []


# -- numbers and addresses


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


# -- paths of files. Upstream: pkg/apis/core/validation


def local_descending_path(text: str, path: str) -> list[FieldError]:
    """A path that stays below where it starts."""
    errors: list[FieldError] = []
    if text.startswith("/"):
        errors.append(invalid(path, text, "must be a relative path"))
    if ".." in text.split("/"):
        errors.append(invalid(path, text, "must not contain '..'"))
    return errors


def path_no_backsteps(text: str, path: str) -> list[FieldError]:
    """A path without `..`."""
    if ".." in text.split("/"):
        return [invalid(path, text, "must not contain '..'")]
    return []


def local_name_path(text: str, path: str) -> list[FieldError]:
    """A path that stays below where it starts, and whose first name does not begin with `..`."""
    errors = local_descending_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        errors.append(invalid(path, text, "must not start with '..'"))
    return errors
