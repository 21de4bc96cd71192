"""Capacity that a request consumes of a device, and whether the device has as much left.

Upstream: structured/internal/incubating/consumable_capacity.go, structured/schedulerapi/types.go.
"""

from __future__ import annotations

from typing import Any

from attrs import define, field

from controlplane.api.go_integers import divide
from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.devices import Amounts, DeviceID

__all__ = ["Allocating", "consumed_by", "fits"]


def _quantity(value: Any) -> Quantity:
    return parse(str(value))


def fits(requested: Tree, capacity: Tree, allocated: Amounts, allocating: Amounts) -> bool:
    """Return whether a device can give a request its capacity.

    A request for a capacity that the device does not have never fits.

    Args:
        requested: quantities by the names of capacities.
        capacity: the capacities of the device.
        allocated: consumed by claims that are allocated.
        allocating: consumed by claims of the running search.
    """
    if any(name not in capacity for name in requested):
        return False
    for name, offered in capacity.items():
        total = _consumed(requested.get(name), offered)
        if _violates(total, offered.get("requestPolicy")):
            return False
        for other in (allocated, allocating):
            if name in other:
                total = total.add(other[name])
        if total.cmp(_quantity(offered.get("value", "0"))) > 0:
            return False
    return True


def consumed_by(requested: Tree, capacity: Tree) -> dict[str, Quantity]:
    """Return the quantities that a request consumes of every capacity of a device."""
    return {name: _consumed(requested.get(name), capacity[name]) for name in sorted(capacity)}


def _consumed(requested: Any, offered: Tree) -> Quantity:
    """Return a requested quantity, rounded up as the policy wants; the default, or all, where none is requested."""
    policy = offered.get("requestPolicy")
    if requested is None:
        if policy is not None and policy.get("default") is not None:
            return _quantity(policy["default"])
        return _quantity(offered.get("value", "0"))
    value = _quantity(requested)
    if policy is None:
        return value
    span = policy.get("validRange")
    if span is not None and span.get("min") is not None:
        return _rounded(value, span)
    for valid in map(_quantity, policy.get("validValues") or ()):
        if value.cmp(valid) <= 0:
            return valid
    return value


def _rounded(value: Quantity, span: Tree) -> Quantity:
    least = _quantity(span["min"])
    if value.cmp(least) < 0:
        return least
    if span.get("step") is None:
        return value
    step = _quantity(span["step"]).value()
    whole, rest = _divided(value.value() - least.value(), step)
    return Quantity.new(least.value() + step * (whole + 1 if rest else whole), "BinarySI")


def _divided(amount: int, step: int) -> tuple[int, int]:
    """Return quotient and remainder, towards zero as Go has them. The API refuses a step of 0, on which Go panics."""
    if not step:
        return 0, amount
    whole = divide(amount, step)
    return whole, amount - whole * step


def _violates(value: Quantity, policy: Tree | None) -> bool:
    if policy is None:
        return False
    default = policy.get("default")
    if default is not None and _identical(value, _quantity(default)):
        return False
    span = policy.get("validRange")
    if span is not None:
        if span.get("max") is not None and value.cmp(_quantity(span["max"])) > 0:
            return True
        if span.get("step") is None:
            return False
        least = _quantity(span["min"]).value() if span.get("min") is not None else 0
        return _divided(value.value() - least, _quantity(span["step"]).value())[1] != 0
    valid = policy.get("validValues") or ()
    return bool(valid) and all(value.cmp(_quantity(each)) != 0 for each in valid)


def _identical(a: Quantity, b: Quantity) -> bool:
    """Return whether two quantities are written the same: upstream compares the structures, not the amounts."""
    return a.format == b.format and str(a) == str(b) and a.cmp(b) == 0


@define
class Allocating:
    """Capacity that the claims of a running search consume, by device.

    A device without entries has none; one with an empty entry is in use, though nothing of it is consumed.
    """

    by_device: dict[DeviceID, dict[str, Quantity]] = field(factory=dict)

    def of(self, device: DeviceID) -> Amounts:
        """Return the consumed capacity of a device."""
        return self.by_device.get(device, {})

    def __contains__(self, device: DeviceID) -> bool:
        return device in self.by_device

    def insert(self, device: DeviceID, amounts: Amounts) -> None:
        """Add a share of a device."""
        known = self.by_device.setdefault(device, {})
        for name, amount in amounts.items():
            known[name] = known[name].add(amount) if name in known else amount

    def remove(self, device: DeviceID, amounts: Amounts) -> None:
        """Take a share back."""
        known = self.by_device.get(device)
        if known is None:
            return
        for name, amount in amounts.items():
            if name in known:
                known[name] = known[name].sub(amount)
        if all(amount.is_zero() for amount in known.values()):
            del self.by_device[device]
