"""The cost of an expression while it is computed, and the end of those that cost too much.

Upstream: cel-go interpreter/runtimecost.go, ext/lists.go and ext/sets.go; apiserver
pkg/cel/library/cost.go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any, Final

from attrs import define

from controlplane.api.quantity import Quantity
from controlplane.apiserver.kinds.custom.cel.amounts import LIST, REGEX, STRUCT, TRAVERSAL
from controlplane.apiserver.kinds.custom.cel.call_costs import CHECK_COST
from controlplane.apiserver.kinds.custom.cel.conversions import GO_TYPES, type_name
from controlplane.apiserver.kinds.custom.cel.library import NamedFormat
from controlplane.apiserver.kinds.custom.cel.maps import items_of
from controlplane.apiserver.kinds.custom.cel.network import Address, Network, Url
from controlplane.apiserver.kinds.custom.cel.semver import Semver
from controlplane.apiserver.kinds.custom.cel.structs import Struct
from controlplane.apiserver.kinds.custom.cel.tree import CelError
from controlplane.apiserver.kinds.custom.cel.values import Optional
from controlplane.apiserver.schema.work import spend

__all__ = ["CANCELLED", "METER", "CallMeter", "Cancelled", "Meter", "meter_of"]

METER: Final = "@meter"
"""The name of the meter among the variables: no expression can speak of it."""
CANCELLED: Final = "operation cancelled: actual cost limit exceeded"
_UNLIMITED: Final = 1 << 63


class Cancelled(CelError):
    """An evaluation that was ended: it has cost more than it may, or its cost is unknown."""


@define(eq=False)
class Meter:
    """The cost of one expression so far. Beyond `limit` the expression ends: Cancelled."""

    limit: int = _UNLIMITED
    spent: int = 0

    def spend(self, cost: int) -> None:
        """Add a number of steps."""
        self.spent += cost
        spend(2 + (cost >> 4))  # long texts cost more than they take
        if self.spent > self.limit:
            raise Cancelled(CANCELLED)


CallMeter = Callable[[list[Any], Any], int | None]
"""The cost of a call, by its arguments (a method's target first) and its result."""


def meter_of(function: str, costs_as: str) -> CallMeter | None:
    """Return the cost function of the calls of one form of a function; None if each costs one step."""
    if costs_as in _FORMS_FIRST:
        return _FORMS_FIRST[costs_as]
    if function in _FUNCTIONS:
        return _FUNCTIONS[function]
    return _FORMS.get(costs_as)


# -- sizes ---------------------------------------------------------------------------------------


def _size(value: Any) -> int:
    if isinstance(value, str | bytes | list) or (
        isinstance(value, dict) and not isinstance(value, Struct)
    ):
        return len(value)
    if isinstance(value, Address):
        return len(value.value.packed)
    if isinstance(value, Network):
        return ceil(value.value.network.prefixlen / 8)
    return 1


def _inner_size(value: Any) -> int:
    """The size of a value, or of the one in an optional value."""
    if isinstance(value, Optional) and value.present:
        return _inner_size(value.value)
    return _size(value)


def _part(size: float, factor: float) -> int:
    return ceil(size * factor)


def _traversal(value: Any) -> int:
    """Steps to go through a value with everything in it."""
    if isinstance(value, str):
        return int(float(len(value.encode())) * TRAVERSAL)
    if isinstance(value, bytes):
        return int(float(len(value)) * TRAVERSAL)
    if isinstance(value, list):
        return sum(map(_traversal, value))
    if isinstance(value, dict) and not isinstance(value, Struct):
        return sum(_traversal(key) + _traversal(item) for key, item in items_of(value))
    return 1


# -- rules ---------------------------------------------------------------------------------------


def _fixed(cost: int, _args: list[Any], _result: Any) -> int:
    return cost


def _read(factor: float, args: list[Any], _result: Any) -> int:
    """The first argument is gone through; twice where the result is made of it."""
    return ceil(float(_size(args[0])) * factor * TRAVERSAL)


def _read_inner(args: list[Any], _result: Any) -> int:
    return _part(_inner_size(args[0]), TRAVERSAL)


def _joined(_args: list[Any], result: Any) -> int:
    return ceil(float(_size(result)) * 2 * TRAVERSAL)


def _traversed(args: list[Any], _result: Any) -> int:
    return _traversal(args[0])


def _searched(args: list[Any], _result: Any) -> int:
    return _part(1 + _inner_size(args[0]), TRAVERSAL) * _part(_inner_size(args[1]), REGEX)


def _contained(args: list[Any], _result: Any) -> int:
    return _part(_inner_size(args[0]), TRAVERSAL) * _part(_inner_size(args[1]), TRAVERSAL)


def _in_list(args: list[Any], _result: Any) -> int:
    return _inner_size(args[1])


def _compared(args: list[Any], _result: Any) -> int:
    return _part(min(_inner_size(args[0]), _inner_size(args[1])), TRAVERSAL)


_EQUAL_AT_ONCE: Final = (Quantity, Address, Network, NamedFormat, Url, Semver)


def _equal(args: list[Any], result: Any) -> int:
    return 1 if isinstance(args[0], _EQUAL_AT_ONCE) else _compared(args, result)


def _added(args: list[Any], _result: Any) -> int:
    return _part(_inner_size(args[0]) + _inner_size(args[1]), TRAVERSAL)


def _made(factor: float, size: int) -> int:
    return int(float(size) * factor) + 1 + LIST


def _made_result(_args: list[Any], result: Any) -> int:
    return _made(1, _size(result))


def _flattened(args: list[Any], _result: Any) -> int:
    depth = 1.0
    if len(args) == 2:
        if isinstance(args[1], CelError):
            raise Cancelled(
                "internal error: interface conversion: ref.Val is *types.Err, not types.Int"
            )
        depth = float(args[1])
    return _made(depth, _size(args[0]))


def _self_compared(index: int, args: list[Any], _result: Any) -> int:
    """A list is compared with itself; of texts that costs more."""
    items = args[index]
    if not isinstance(items, list):
        failed = isinstance(items, CelError)
        kind = "*types.Err" if failed else GO_TYPES.get(type_name(items), "types.Int")
        raise Cancelled(
            f"internal error: interface conversion: {kind} is not traits.Lister: missing method Add"
        )
    textual = bool(items) and isinstance(items[0], str | bytes)
    return _made(2.0 + TRAVERSAL if textual else 2.0, len(items) * len(items))


def _sets(factor: float, args: list[Any], _result: Any) -> int:
    return 1 + int(float(_size(args[0]) * _size(args[1])) * factor)


def _selector(args: list[Any], _result: Any) -> int:
    size = _size(args[1])
    return LIST + _part(size, TRAVERSAL) + _part(_part(size, 0.5), float(LIST + STRUCT))


def _network_contains(args: list[Any], _result: Any) -> int:
    return _part(2 * _size(args[0]), TRAVERSAL)


def _network_contains_text(args: list[Any], result: Any) -> int:
    return _network_contains(args, result) + _part(_size(args[1]), TRAVERSAL)


def _network_within(args: list[Any], _result: Any) -> int:
    size = _size(args[0])
    return _part(2 * size, TRAVERSAL) + _part(size, TRAVERSAL) + 1


def _network_within_text(args: list[Any], result: Any) -> int:
    return _network_within(args, result) + _part(_size(args[1]), TRAVERSAL)


_REGEX_SIZES: Final = {
    "dns1123Label": 30,
    "dns1123Subdomain": 60,
    "dns1035Label": 30,
    "qualifiedName": 60,
    "dns1123LabelPrefix": 30,
    "dns1123SubdomainPrefix": 60,
    "dns1035LabelPrefix": 30,
    "labelValue": 40,
    "uri": 1103,
    "uuid": 70,
    "byte": 84,
    "date": 71,
    "datetime": 71,
}
"""Characters of the regular expressions that named formats stand for."""


def _validated(args: list[Any], _result: Any) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    regex = _part(_REGEX_SIZES[args[0].name], REGEX)
    return _part(1 + _size(args[1]), TRAVERSAL) * regex


_FUNCTIONS: Final[dict[str, CallMeter]] = {
    "check": partial(_fixed, CHECK_COST),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversed),
    **dict.fromkeys(
        (
            "url",
            "lowerAscii",
            "upperAscii",
            "substring",
            "trim",
            "jsonpatch.escapeKey",
            "cidr",
            "isIP",
            "isCIDR",
            "ip",
            "quantity",
            "isQuantity",
            "semver",
            "isSemver",
        ),
        partial(_read, 1.0),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), partial(_read, 2.0)),
    "join": _joined,
    **dict.fromkeys(("find", "findAll"), _searched),
    "containsIP": _network_contains,
    "containsCIDR": _network_within,
    "validate": _validated,
    "_==_": _equal,
    "_!=_": _compared,
}
_FORMS: Final[dict[str, CallMeter]] = {
    **dict.fromkeys(("format", "to_bytes", "to_string", "quote", "affix"), _read_inner),
    "in_list": _in_list,
    "matches": _searched,
    "contains": _contained,
    "add_text": _added,
    "compare_text": _compared,
}
_FORMS_FIRST: Final[dict[str, CallMeter]] = {
    **dict.fromkeys(("slice", "range", "reverse"), _made_result),
    "flatten": _flattened,
    **dict.fromkeys(("distinct", "sort", "sort_text"), partial(_self_compared, 0)),
    **dict.fromkeys(("sort_by", "sort_text_by"), partial(_self_compared, 1)),
    "sets": partial(_sets, 1.0),
    "sets_twice": partial(_sets, 2.0),
    "member": partial(_fixed, 1),
    "containsIP_text": _network_contains_text,
    "containsCIDR_text": _network_within_text,
}
"""Forms whose rule goes before that of their function."""
