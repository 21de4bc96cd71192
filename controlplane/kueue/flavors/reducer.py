"""Partial admission: the largest counts between minimum and wish that fit.

Follows `pkg/scheduler/flavorassigner/podset_reducer.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from controlplane.api.go_integers import divide
from controlplane.api.tree import Tree

R = TypeVar("R")


def search_counts(pod_sets: Sequence[Tree], fits: Callable[[list[int]], R | None]) -> R | None:
    """Return what `fits` gives for the largest fitting counts, None if there are none.

    All counts shrink in step: at position k of n, by k/n of the way to their minimum.
    """
    full = [int(each.get("count") or 0) for each in pod_sets]
    deltas = [
        count - (count if each.get("minCount") is None else each["minCount"])
        for count, each in zip(full, pod_sets, strict=True)
    ]
    total = sum(deltas)
    if total == 0:
        return None
    good, best = 0, None
    low, high = 0, total + 1
    while low < high:
        middle = (low + high) // 2
        counts = [
            count - divide(delta * middle, total) for count, delta in zip(full, deltas, strict=True)
        ]
        found = fits(counts)
        if found is None:
            low = middle + 1
        else:
            good, best, high = middle, found, middle
    return best if low == good else None
