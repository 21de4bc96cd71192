"""Amounts of quota and requests: 64-bit integers that saturate, and how they are written.

CPU counts in thousandths, every other resource in whole units. The greatest number stands for
"unlimited". Follows `pkg/resources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from controlplane.api import go_integers
from controlplane.api.fnv import fnv1a_64
from controlplane.api.quantity import MAX_INT64, MIN_INT64, Quantity, parse

UNLIMITED: Final = MAX_INT64
PODS: Final = "pods"
CPU: Final = "cpu"

Requests = dict[str, int]
"""Amounts by resource name, in `resource_order`."""

_WHOLE_LIMIT: Final = Quantity.new(MAX_INT64)
_CPU_QUOTA_LIMIT: Final = Quantity.new(MAX_INT64 // 1000)
_MILLI_LIMITS: Final = (Quantity.new_milli(MIN_INT64), Quantity.new_milli(MAX_INT64))
_WHOLE_LIMITS: Final = (Quantity.new(MIN_INT64), Quantity.new(MAX_INT64))


class FlavorResource(NamedTuple):
    """A resource in a flavor: the unit that quota is counted in."""

    flavor: str
    resource: str

    def __str__(self) -> str:
        return f"{self.flavor}/{self.resource}"


Quotas = dict[FlavorResource, int]
"""Amounts by flavor and resource."""


def clamp(value: int) -> int:
    """The nearest 64-bit integer."""
    return MAX_INT64 if value > MAX_INT64 else max(value, MIN_INT64)


def add(a: int, b: int) -> int:
    """The sum; unlimited stays unlimited."""
    if a == UNLIMITED or b == UNLIMITED:
        return UNLIMITED
    return clamp(a + b)


def sub(a: int, b: int) -> int:
    """The difference; unlimited less anything bounded is unlimited, less itself 0."""
    if a == UNLIMITED:
        return 0 if b == UNLIMITED else UNLIMITED
    if b == UNLIMITED:
        return MIN_INT64
    return clamp(a - b)


def divide(value: int, by: int) -> int:
    """The quotient cut towards zero; nothing divided by nothing stays nothing."""
    return value if by == 0 else go_integers.divide(value, by)


def quota_amount(resource: str, quantity: str) -> int:
    """The amount of a nominal quota or limit; what does not fit is unlimited."""
    parsed = parse(quantity)
    if parsed.cmp(_CPU_QUOTA_LIMIT if resource == CPU else _WHOLE_LIMIT) >= 0:
        return UNLIMITED
    return parsed.milli_value() if resource == CPU else parsed.value()


def request_amount(resource: str, quantity: Quantity) -> int:
    """The amount of a request; what does not fit is cut to the greatest or least number."""
    low, high = _MILLI_LIMITS if resource == CPU else _WHOLE_LIMITS
    if quantity.cmp(high) > 0:
        return MAX_INT64
    if quantity.cmp(low) < 0:
        return MIN_INT64
    return quantity.milli_value() if resource == CPU else quantity.value()


@lru_cache(maxsize=4096)
def resource_order(name: str) -> tuple[int, str]:
    """The sort key of resources inside requests: the FNV-1a hash of the name, then the name."""
    return fnv1a_64(name.encode()), name


def requests_of(amounts: Mapping[str, int]) -> Requests:
    """Amounts in `resource_order`."""
    return {name: amounts[name] for name in sorted(amounts, key=resource_order)}


def requests_of_quantities(quantities: Mapping[str, Quantity]) -> Requests:
    """Amounts of parsed quantities in `resource_order`."""
    return requests_of({name: request_amount(name, each) for name, each in quantities.items()})


def requests_of_texts(quantities: Mapping[str, str] | None) -> Requests:
    """Amounts of quantities as objects write them, in `resource_order`."""
    return requests_of(
        {name: request_amount(name, parse(str(each))) for name, each in (quantities or {}).items()}
    )


def scaled_up(requests: Requests, factor: int) -> Requests:
    """Each amount times the factor."""
    return {name: clamp(value * factor) for name, value in requests.items()}


def scaled_down(requests: Requests, by: int) -> Requests:
    """Each amount divided, cut towards zero."""
    return {name: divide(value, by) for name, value in requests.items()}


def summed(parts: Iterable[Requests]) -> Requests:
    """The sum of several requests, in `resource_order`."""
    total: dict[str, int] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = clamp(total.get(name, 0) + value)
    return requests_of(total)


def greater(requests: Mapping[str, int], other: Mapping[str, int]) -> list[str]:
    """The sorted names whose amount exceeds that of `other`, where both have one."""
    return sorted(name for name, value in requests.items() if value > other.get(name, value))


def quantity(resource: str, value: int) -> Quantity:
    """An amount as quantity: bytes in binary notation, everything else decimal."""
    if resource == CPU:
        return Quantity.new_milli(value)
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return parse(Quantity.new(value, "BinarySI").canonical())
    return Quantity.new(value)


def quantity_text(resource: str, value: int) -> str:
    """An amount as objects and messages write it."""
    return str(quantity(resource, value))


def amount_text(resource: str, value: int) -> str:
    """The same for quota, where there may be no limit."""
    return "<unlimited>" if value == UNLIMITED else quantity_text(resource, value)


__all__ = [
    "CPU", "PODS", "UNLIMITED", "FlavorResource", "Quotas", "Requests", "add",
    "amount_text", "clamp", "divide", "greater", "quantity", "quantity_text", "quota_amount",
    "request_amount", "requests_of", "requests_of_quantities", "requests_of_texts",
    "resource_order", "scaled_down", "scaled_up", "sub", "summed",
]  # fmt: skip
