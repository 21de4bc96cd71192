"""Snapshots of numbers: families of one name each, with everything that is needed to show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Literal, TypeVar

from attrs import evolve, frozen

from controlplane.metrics.histogram import Histogram
from controlplane.metrics.numbers import Labels

__all__ = ["NANOSECONDS", "Buckets", "Family", "Kind", "Sample", "Series", "merged"]

Kind = Literal["counter", "gauge", "histogram"]
Key = TypeVar("Key", bound=tuple[str, ...])
NANOSECONDS = 1_000_000_000
"""The unit of durations: they are kept in nanoseconds and shown in seconds."""


@frozen
class Buckets:
    """A histogram as it was: how many amounts were at most `bounds`, how many there were, and their sum.

    `least` and `most` are the smallest and the largest amount, 0 where there was none.
    """

    bounds: tuple[float, ...]
    at_most: tuple[int, ...]
    count: int
    sum: float
    least: float = 0
    most: float = 0

    def quantile(self, share: float) -> float | None:
        """The amount that `share` of all amounts do not exceed, as far as buckets tell; None without amounts.

        Within a bucket amounts are taken to lie evenly, as histogram_quantile of Prometheus takes them,
        but nothing lies outside `least` and `most`.
        """
        if not self.count:
            return None
        return min(max(self._within(share), self.least), self.most)

    def _within(self, share: float) -> float:
        rank = share * self.count
        below, low = 0, 0.0
        for bound, reached in zip(self.bounds, self.at_most):
            if reached >= rank:
                within = reached - below
                return low + (bound - low) * (rank - below) / within if within else low
            below, low = reached, bound
        return self.most


@frozen
class Sample:
    """One line of a family: labels sorted by name, and what there is under them."""

    labels: Labels
    value: float | Buckets


@frozen
class Family:
    """All samples of one name. `help` is one sentence."""

    name: str
    kind: Kind
    help: str
    samples: tuple[Sample, ...]

    def labelled(self, name: str, value: str) -> Family:
        """The same with one more label on every sample."""
        more = ((name, value),)
        return evolve(
            self,
            samples=tuple(
                Sample(tuple(sorted(each.labels + more)), each.value) for each in self.samples
            ),
        )


@frozen
class Series:
    """The static description of a metric family: a constant of the component that counts.

    Values are kept by the values of `labels`, in that order. `bounds` are a histogram's, and `unit`
    of them are one of what is shown (`NANOSECONDS`: kept in nanoseconds, shown in seconds).
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[int, ...] = ()
    unit: int = 1

    def histogram(self) -> Histogram:
        """An empty one."""
        return Histogram(self.bounds)

    def family(self, values: Mapping[Key, float | Histogram]) -> Family:
        """A snapshot of what was counted by the values of the labels."""
        samples = [
            Sample(_labelled(self.labels, key), self._shown(value)) for key, value in values.items()
        ]
        return Family(self.name, self.kind, self.help, tuple(sorted(samples, key=_labels)))

    def single(self, value: float | Histogram) -> Family:
        """A snapshot of a number without labels."""
        return self.family({(): value})

    def _shown(self, value: float | Histogram) -> float | Buckets:
        if not isinstance(value, Histogram):
            return value
        return Buckets(
            tuple(bound / self.unit for bound in value.bounds),
            tuple(accumulate(value.buckets[:-1])),
            value.count,
            value.sum / self.unit,
            value.least / self.unit,
            value.most / self.unit,
        )


@lru_cache(1 << 16)
def _labelled(names: tuple[str, ...], values: tuple[str, ...]) -> Labels:
    return tuple(sorted(zip(names, values, strict=True)))


def merged(families: Iterable[Family]) -> tuple[Family, ...]:
    """Families of the same name as one, by name; samples by their labels."""
    found: dict[str, Family] = {}
    for family in families:
        known = found.get(family.name)
        if known is not None:
            family = evolve(known, samples=known.samples + family.samples)
        found[family.name] = family
    return tuple(
        evolve(family, samples=tuple(sorted(family.samples, key=_labels)))
        for _, family in sorted(found.items())
    )


def _labels(sample: Sample) -> Labels:
    return sample.labels
