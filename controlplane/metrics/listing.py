"""Metrics as rows for a table, and as a tree for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any

from controlplane.metrics.exposition import number
from controlplane.metrics.family import Buckets, Family

__all__ = ["rows", "tree"]

_DIGITS = 6


def rows(families: Iterable[Family]) -> Iterator[tuple[str, str, str]]:
    """Name, labels and value of every sample; empty labels are left out, histograms given by five numbers."""
    for family in families:
        for sample in family.samples:
            labels = ", ".join(f"{name}={value}" for name, value in sample.labels if value)
            yield family.name, labels, _told(sample.value)


def tree(families: Iterable[Family]) -> list[dict[str, Any]]:
    """Every sample with name, type and labels; `value`, or `count`, `sum`, `p50`, `p99` and `buckets`."""
    return [
        {
            "name": family.name,
            "type": family.kind,
            "labels": dict(sample.labels),
            **_parts(sample.value),
        }
        for family in families
        for sample in family.samples
    ]


def _parts(value: float | Buckets) -> dict[str, Any]:
    if not isinstance(value, Buckets):
        return {"value": value if isfinite(value) else number(value)}
    return {
        "count": value.count,
        "sum": value.sum,
        "p50": value.quantile(0.5),
        "p99": value.quantile(0.99),
        "buckets": {number(bound): at for bound, at in zip(value.bounds, value.at_most)},
    }


def _told(value: float | Buckets) -> str:
    if not isinstance(value, Buckets):
        return number(value)
    half, most = (_rounded(value.quantile(share)) for share in (0.5, 0.99))
    return f"count {value.count}, sum {_rounded(value.sum)}, p50 {half}, p99 {most}"


def _rounded(value: float | None) -> str:
    return "-" if value is None else number(round(value, _DIGITS))
