"""Histograms. Amounts are whole numbers (nanoseconds, pods), so sums are exact."""

from __future__ import annotations

from bisect import bisect_left

__all__ = ["Histogram", "exponential"]


class Histogram:
    """Counts of amounts per bucket; the last bucket has no bound."""

    __slots__ = ("bounds", "buckets", "count", "least", "most", "sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        """`bounds`: the buckets' upper bounds, rising; an amount equal to a bound lies below it."""
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.count = 0
        self.sum = 0
        self.least = self.most = 0

    def observe(self, amount: int) -> None:
        """Count one amount."""
        if amount > self.most or not self.count:
            self.most = amount
        if amount < self.least or not self.count:
            self.least = amount
        self.buckets[bisect_left(self.bounds, amount)] += 1
        self.count += 1
        self.sum += amount


def exponential(first: int, factor: int, count: int) -> tuple[int, ...]:
    """`count` bounds, each `factor` times the one before. Upstream: ExponentialBuckets."""
    return tuple(first * factor**power for power in range(count))
