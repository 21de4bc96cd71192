"""Scores of NUMA zones: by how full they become, and by how few of them a pod needs.

Upstream: pkg/noderesourcetopology/score.go, least_allocated.go, most_allocated.go, balanced_allocation.go and
least_numa.go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Final, TypeAlias

from controlplane.api.go_integers import divide, int64
from controlplane.api.quantity import Quantity
from controlplane.scheduler.community.numa import ZERO, Amounts, Manager, Zone, is_affine
from controlplane.scheduler.community.scores import MOST, as_int64
from controlplane.scheduler.framework.panic import PanicError

__all__ = ["STRATEGIES", "Strategy", "fewest_zones", "mean_of_zones", "out_of_range", "suits"]

Requests: TypeAlias = Mapping[str, Quantity]
Weights: TypeAlias = Mapping[str, int]
Strategy: TypeAlias = Callable[[Requests, Requests, Weights], int]

_FARTHEST: Final = 255


def out_of_range(index: int, length: int) -> PanicError:
    """Return the panic of a zone whose number is no place in the list of zones."""
    return PanicError(f"runtime error: index out of range [{index}] with length {length}")


def suits(qos: str, name: str, amount: Quantity, available: Quantity) -> bool:
    """Return whether a zone has enough; cpu and memory of pods that get none for themselves fit anywhere."""
    return (qos != "Guaranteed" and is_affine(name)) or available >= amount


def _weighted(requested: Requests, zone: Requests, weights: Weights, *, most: bool) -> int:
    total = of = 0
    for name, amount in requested.items():
        there = zone.get(name, ZERO)
        weight = max(weights.get(name, 1), 1)
        if not there.is_zero() and amount <= there:
            part = amount.value() if most else there.value() - amount.value()
            total += divide(int64(part * MOST), there.value()) * weight
        of += weight
    if not of:
        raise PanicError("runtime error: integer divide by zero")
    return divide(int64(total), of)


def _least(requested: Requests, zone: Requests, weights: Weights) -> int:
    return _weighted(requested, zone, weights, most=False)


def _most(requested: Requests, zone: Requests, weights: Weights) -> int:
    return _weighted(requested, zone, weights, most=True)


def _balanced(requested: Requests, zone: Requests, _: Weights) -> int:
    shares = []
    for name in sorted(requested):
        there = zone.get(name, ZERO).value()
        share = requested[name].value() / there if there else 1.0
        if share > 1:
            return 0
        shares.append(share)
    return as_int64((1 - _variance(shares)) * MOST)


def _variance(numbers: Sequence[float]) -> float:
    """Return the variance of a sample; no number for fewer than two."""
    count = len(numbers)
    if count < 2:
        return math.nan
    mean = sum(numbers) / count
    squares = rest = 0.0
    for each in numbers:
        away = each - mean
        squares += away * away
        rest += away
    return (squares - rest * rest / count) / (count - 1)


STRATEGIES: Final[Mapping[str, Strategy]] = {
    "LeastAllocated": _least,
    "MostAllocated": _most,
    "BalancedAllocation": _balanced,
}


def _of_zones(
    requested: Requests, zones: Sequence[Zone], strategy: Strategy, weights: Weights
) -> int:
    """Return the lowest score of the zones that is not 0."""
    lowest = 0
    for zone in zones:
        score = strategy(requested, zone.available, weights)
        if lowest == 0 or (score != 0 and score < lowest):
            lowest = score
        if zone.id >= len(zones):
            raise out_of_range(zone.id, len(zones))
    return lowest


def mean_of_zones(
    parts: Sequence[Requests],
    zones: Sequence[Zone],
    strategy: Strategy,
    weights: Weights,
    *,
    whole_pod: bool,
) -> int:
    """Return the score of a node for a pod, or the mean of those for its containers."""
    scores = [_of_zones(each, zones, strategy, weights) for each in parts]
    if whole_pod:
        return scores[0]
    return as_int64(sum(map(float, scores)) / len(scores))


# -- as few zones as can be ------------------------------------------------------------------------


def fewest_zones(
    qos: str, parts: Sequence[Requests], zones: Sequence[Zone], manager: Manager, *, whole_pod: bool
) -> int:
    """Return a score that is higher the fewer zones are needed, and higher if they are near each other.

    The containers take one after another what they need out of `zones`.
    """
    most, near = 0, True
    for requests in parts:
        if not any(name in zone.available for name in requests for zone in zones):
            continue
        chosen, nearest = _zones_for(qos, zones, requests)
        if chosen is None:
            return 0
        near = near and nearest
        most = max(most, len(chosen))
        if not whole_pod:
            _take(requests, zones, chosen)
    if not most:
        return MOST
    unit = MOST // manager.most_zones
    score = MOST - most * unit
    return score + unit // 2 if near else score


def _zones_for(
    qos: str, zones: Sequence[Zone], requests: Requests
) -> tuple[list[int] | None, bool]:
    """Return the numbers of the fewest zones that hold a request, and whether none are nearer to each other."""
    for size in range(1, len(zones) + 1):
        groups = list(combinations(zones, size))
        best = min((_distance(group) for group in groups), default=_FARTHEST)
        best = min(best, _FARTHEST)
        found: tuple[Zone, ...] | None = None
        shortest: float = _FARTHEST + 1
        for group in groups:
            if not _holds(qos, group, requests):
                continue
            distance = _distance(group)
            if distance == best:
                return _numbers(group), True
            if distance < shortest:
                shortest, found = distance, group
        if found is not None:
            return _numbers(found), False
    return None, False


def _numbers(group: Sequence[Zone]) -> list[int]:
    return sorted(dict.fromkeys(zone.id for zone in group))


def _distance(group: Sequence[Zone]) -> float:
    """Return the mean distance between zones, each to itself too."""
    total = sum(one.costs.get(other.id, _FARTHEST) for one in group for other in group)
    return total / len(group) ** 2


def _holds(qos: str, group: Sequence[Zone], requests: Requests) -> bool:
    for name, amount in requests.items():
        amounts = [zone.available.get(name) for zone in group]
        total = ZERO
        for each in amounts:
            if each is None:
                return False
            total = total + each
        if not amount.is_zero() and not suits(qos, name, amount, total):
            return False
    return True


def _take(requests: Requests, zones: Sequence[Zone], chosen: Sequence[int]) -> None:
    for name, amount in requests.items():
        rest = amount
        for at in chosen:
            if rest.is_zero():
                break
            if at >= len(zones):
                raise out_of_range(at, len(zones))
            available: Amounts = zones[at].available
            there = available.get(name)
            if there is None:
                continue
            taken = min(rest, there)
            available[name] = there - taken
            rest = rest - taken
