"""Shared counters of partitionable devices: what the devices of a pool consume of its counter sets.

Counters are kept by the name of the pool alone, so pools of the same name that two drivers have share theirs (as
upstream). Upstream: checkAvailableCounters in structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.devices import DeviceID
from controlplane.scheduler.dra.pools import Pool

__all__ = ["Available", "Consumed", "available_counters"]

Available = dict[str, dict[str, Quantity]]
"""Counters by the name of their set and their own."""
_ZERO = Quantity.new(0)


def available_counters(pool: Pool, is_allocated: Callable[[DeviceID], bool]) -> Available:
    """Return what the allocated devices of a pool leave of its counters."""
    found: Available = {
        name: {key: _value(counter) for key, counter in counters.items()}
        for name, counters in pool.counter_sets.items()
    }
    for piece in (*pool.targeting, *pool.not_targeting):
        for device in piece.devices:
            if not is_allocated(piece.id_of(device)):
                continue
            for consumption in device.get("consumesCounters") or ():
                left = found.get(consumption.get("counterSet", ""), {})
                for key, counter in (consumption.get("counters") or {}).items():
                    if key in left:
                        left[key] = left[key].sub(_value(counter))
    return found


def _value(counter: Tree) -> Quantity:
    return parse(str(counter.get("value", "0")))


class Consumed:
    """Amounts that the devices of a running search consume, by the names of pool, counter set and counter."""

    def __init__(self) -> None:
        self.pools: dict[str, Available] = {}

    def take(self, pool: str, device: Tree, available: Available) -> bool:
        """Consume the counters of a device; consume nothing and return False where that would be too much."""
        used = self.pools.setdefault(pool, {})
        for consumption in device.get("consumesCounters") or ():
            counters = used.setdefault(consumption.get("counterSet", ""), {})
            for key, counter in (consumption.get("counters") or {}).items():
                amount = _value(counter)
                counters[key] = counters[key].add(amount) if key in counters else amount
        for name, left in available.items():
            counters = used.get(name, {})
            if any(amount.cmp(counters.get(key, _ZERO)) < 0 for key, amount in left.items()):
                self.give_back(pool, device)
                return False
        return True

    def give_back(self, pool: str, device: Tree) -> None:
        """Take back what a device consumed."""
        used = self.pools[pool]
        for consumption in device.get("consumesCounters") or ():
            counters = used[consumption.get("counterSet", "")]
            for key, counter in (consumption.get("counters") or {}).items():
                counters[key] = counters[key].sub(_value(counter))
