"""Past usage of local queues, which admission fair sharing orders workloads by.

Usage decays: after each half-life half of it is left. A workload that has just been assumed costs its
local queue a penalty until its usage is sampled. Follows `pkg/util/admissionfairsharing` and
`pkg/cache/queue/afs`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

from controlplane.api.go_math import go_exp, go_log
from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import Tree

Resources = dict[str, Quantity]
_PLACES: Final = 9
"""Decimal places that repeated multiplication keeps; the rest is cut off."""
BY_USAGE: Final = "UsageBasedAdmissionFairSharing"


@dataclass(frozen=True)
class FairSharing:
    """Part `admissionFairSharing` of Kueue's configuration; times in seconds."""

    half_life: float
    sampling_interval: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)


def weights_for(
    admission_scope: Tree | None, config: FairSharing | None
) -> Mapping[str, float] | None:
    """The resource weights of a cluster queue that shares by usage, None if it does not."""
    if config is None or admission_scope is None:
        return None
    return config.weights if admission_scope.get("admissionMode") == BY_USAGE else None


def local_queue_weight(local_queue: Tree) -> float:
    """The fair sharing weight of a LocalQueue."""
    text = ((local_queue.get("spec") or {}).get("fairSharing") or {}).get("weight")
    return 1.0 if text is None else parse(str(text)).approximate_float()


# -- arithmetic ------------------------------------------------------------------------------------


def decayed(old: Resources, new: Resources, elapsed: float, half_life: float) -> Resources:
    """The average of old and new usage, in which the old one loses weight with the elapsed seconds."""
    rate = _rate(elapsed, half_life)
    return total(scaled(old, 1 - rate), scaled(new, rate))


def entry_penalty(requests: Resources, config: FairSharing) -> Resources:
    """The amount that a workload adds to the usage at the next sampling."""
    return scaled(requests, _rate(config.sampling_interval, config.half_life))


def weighted(
    consumed: Resources, penalty: Resources, weight: float, resource_weights: Mapping[str, float]
) -> float:
    """Usage as one number; infinite for a queue without a positive weight."""
    both = total(consumed, penalty)
    usage = 0.0
    for name in sorted(both):
        usage += resource_weights.get(name, 1.0) * both[name].approximate_float()
    return math.inf if weight <= 0 else usage / weight


def total(one: Resources, other: Resources) -> Resources:
    """The sum of both."""
    result = dict(one)
    for name, amount in other.items():
        result[name] = result[name].add(amount) if name in result else amount
    return result


def scaled(resources: Resources, factor: float) -> Resources:
    """Each amount times the factor, as decimal numbers, cut to nine places."""
    exact = Decimal(repr(factor))
    sign, digits, exponent = exact.as_tuple()
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    return {name: _times(each, unscaled, int(exponent)) for name, each in resources.items()}


def _times(amount: Quantity, unscaled: int, exponent: int) -> Quantity:
    mantissa, scale = amount.normal()
    product, shift = mantissa * unscaled, scale + exponent + _PLACES
    if shift >= 0:
        product *= 10**shift
    else:
        product = abs(product) // 10**-shift * (-1 if product < 0 else 1)
    return Quantity(product, -_PLACES, "DecimalSI", wide=True)


def _rate(seconds: float, half_life: float) -> float:
    return 0.0 if half_life == 0 else 1.0 - _half_to_the(seconds / half_life)


def _half_to_the(power: float) -> float:
    """0.5 to a power that is not negative, with the roundings of Go's math.Pow."""
    if power == 0.5:
        return math.sqrt(0.5)
    fraction, whole = math.modf(power)
    factor = 1.0
    if fraction:
        if fraction > 0.5:
            fraction, whole = fraction - 1.0, whole + 1.0
        factor = go_exp(fraction * go_log(0.5))
    return math.ldexp(factor, -int(whole))


# -- ledger ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """The usage of one local queue.

    `consumed` is the decayed history as of `last_update` (nanoseconds), `penalty` the sum of
    `penalties` by workload; `accounted` tells that the history in the object's status is in it.
    """

    consumed: Resources = field(default_factory=dict)
    penalty: Resources = field(default_factory=dict)
    penalties: Mapping[str, Resources] = field(default_factory=dict)
    last_update: int = 0
    accounted: bool = False

    def with_penalty(self, workload: str, penalty: Resources) -> Entry:
        """The entry with a workload's penalty, in place of the one before."""
        rest, _ = self.without_penalty(workload)
        return replace(
            rest,
            penalties={**rest.penalties, workload: dict(penalty)},
            penalty=total(rest.penalty, penalty),
        )

    def without_penalty(self, workload: str) -> tuple[Entry, Resources | None]:
        """The entry without a workload's penalty, and that penalty."""
        found = self.penalties.get(workload)
        if found is None:
            return self, None
        negative = {name: each.neg() for name, each in found.items()}
        left = {
            name: each for name, each in total(self.penalty, negative).items() if not each.is_zero()
        }
        penalties = {name: each for name, each in self.penalties.items() if name != workload}
        return replace(self, penalty=left, penalties=penalties), found


class Ledger:
    """The usage of local queues by key (namespace/name)."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def get(self, local_queue: str) -> Entry | None:
        """The usage of a local queue, None if nothing is known of it."""
        return self._entries.get(local_queue)

    def put(self, local_queue: str, entry: Entry) -> None:
        """Replace an entry."""
        self._entries[local_queue] = entry

    def delete(self, local_queue: str) -> None:
        """Forget a local queue."""
        self._entries.pop(local_queue, None)

    def push_penalty(self, local_queue: str, workload: str, penalty: Resources, now: int) -> None:
        """Enter the penalty of a workload that was assumed; `now` starts the clock of a new entry."""
        entry = self._entries.get(local_queue) or Entry(last_update=now)
        self._entries[local_queue] = entry.with_penalty(workload, penalty)

    def drop_penalty(self, local_queue: str, workload: str) -> Resources | None:
        """Drop a penalty that will not be settled; what it was."""
        entry = self._entries.get(local_queue)
        if entry is None:
            return None
        self._entries[local_queue], removed = entry.without_penalty(workload)
        return removed

    def has_penalty(self, local_queue: str) -> bool:
        """Return whether a penalty other than zero is pending."""
        entry = self._entries.get(local_queue)
        return entry is not None and any(not each.is_zero() for each in entry.penalty.values())

    def usage(
        self, local_queue: str, weight: float, resource_weights: Mapping[str, float]
    ) -> float:
        """The weighted usage of a local queue."""
        entry = self._entries.get(local_queue) or Entry()
        return weighted(entry.consumed, entry.penalty, weight, resource_weights)
