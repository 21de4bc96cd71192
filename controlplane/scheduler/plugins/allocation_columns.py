"""`resource_allocation` over columns: the same numbers for all nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from controlplane.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY
from controlplane.scheduler.columns.columns import Columns, Ints
from controlplane.scheduler.framework import args as a
from controlplane.scheduler.framework.scores import broken_linear
from controlplane.scheduler.state.resources import is_scalar_resource

if TYPE_CHECKING:
    pass


def _amounts(name: str, request: int, columns: Columns, plain: bool) -> tuple[Ints, Ints] | None:
    """(allocatable, requested without the pod), None for a resource left out on every node."""
    if name == CPU:
        return columns.alloc_cpu, columns.used_cpu if plain else columns.non_zero_cpu
    if name == MEMORY:
        return columns.alloc_memory, columns.used_memory if plain else columns.non_zero_memory
    if name == EPHEMERAL_STORAGE:
        return columns.alloc_storage, columns.used_storage
    if request == 0 and is_scalar_resource(name):
        return None
    return columns.scalar(name)


def fit_scores(args: a.NodeResourcesFitArgs, requests: Sequence[int], columns: Columns) -> Ints:
    """Scores of NodeResourcesFit."""
    ratio = args.strategy == a.REQUESTED_TO_CAPACITY_RATIO
    if ratio:
        # Utilisation in percent has few values: look the points up instead of interpolating.
        table = np.array([broken_linear(args.shape, p, 10) for p in range(101)], np.int64)
    score: Ints = np.zeros(columns.size, np.int64)
    weights: Ints = np.zeros(columns.size, np.int64)
    for spec, request in zip(args.resources, requests):
        amounts = _amounts(spec.name, request, columns, plain=False)
        if amounts is None:
            continue
        capacity, used = amounts
        there = capacity > 0
        divisor = np.where(there, capacity, 1)
        requested = used + request
        if ratio:
            percent = np.minimum(requested * 100 // divisor, 100)
            points = table[np.where(requested > capacity, 100, percent)]
            there = there & (points > 0)
        elif args.strategy == a.MOST_ALLOCATED:
            points = np.minimum(requested, capacity) * 100 // divisor
        else:
            points = np.maximum(capacity - requested, 0) * 100 // divisor
        score += np.where(there, points * spec.weight, 0)
        weights += np.where(there, spec.weight, 0)
    divisor = np.where(weights > 0, weights, 1)
    if not ratio:
        return score // divisor
    exact = score.astype(np.float64) / divisor.astype(np.float64)
    whole = np.trunc(exact)
    return (whole + (exact - whole >= 0.5)).astype(np.int64)


def balance_scores(
    resources: Sequence[a.ResourceSpec],
    requests: Sequence[int],
    columns: Columns,
) -> Ints:
    """Scores of NodeResourcesBalancedAllocation."""
    after: list[NDArray[np.float64]] = []
    before: list[NDArray[np.float64]] = []
    present: list[NDArray[np.bool_]] = []
    for spec, request in zip(resources, requests):
        amounts = _amounts(spec.name, request, columns, plain=True)
        if amounts is None:
            continue
        capacity, used = amounts
        there = capacity > 0
        divisor = np.where(there, capacity, 1).astype(np.float64)
        present.append(there)
        after.append(np.minimum((used + request).astype(np.float64) / divisor, 1.0))
        before.append(np.minimum(used.astype(np.float64) / divisor, 1.0))
    gain = 50 + _balance(after, present, columns.size) - _balance(before, present, columns.size)
    # Toward zero, as Go divides.
    half = np.where(gain >= 0, gain // 2, -(-gain // 2))
    return half + 50


def _balance(
    fractions: list[NDArray[np.float64]], present: list[NDArray[np.bool_]], size: int
) -> Ints:
    """As `resource_allocation.balance`: the sums run over the resources in the same order."""
    zero = np.zeros(size, np.float64)
    if len(fractions) < 2:
        return _points(zero)
    count: Ints = np.zeros(size, np.int64)
    for there in present:
        count += there
    if len(fractions) == 2:
        both = present[0] & present[1]
        return _points(np.where(both, np.abs((fractions[0] - fractions[1]) / 2), zero))
    total = zero.copy()
    for fraction, there in zip(fractions, present):
        total += np.where(there, fraction, 0.0)
    divisor = np.where(count > 0, count, 1).astype(np.float64)
    mean = total / divisor
    squares = zero.copy()
    for fraction, there in zip(fractions, present):
        squares += np.where(there, (fraction - mean) * (fraction - mean), 0.0)
    spread = np.sqrt(squares / divisor)
    # Exactly two resources are compared directly: halving and square roots round differently.
    pair_low, pair_high = _pair(fractions, present, size)
    spread = np.where(count == 2, np.abs((pair_low - pair_high) / 2), spread)
    return _points(np.where(count < 2, zero, spread))


def _pair(
    fractions: list[NDArray[np.float64]], present: list[NDArray[np.bool_]], size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The first and the last present fraction of every row."""
    first = np.zeros(size, np.float64)
    last = np.zeros(size, np.float64)
    seen = np.zeros(size, np.bool_)
    for fraction, there in zip(fractions, present):
        first = np.where(there & ~seen, fraction, first)
        last = np.where(there, fraction, last)
        seen |= there
    return first, last


def _points(deviation: NDArray[np.float64]) -> Ints:
    return ((1 - deviation) * 100.0).astype(np.int64)
