"""Arithmetic shared by score plugins.

Upstream: `plugins/helper/normalize_score.go`, `plugins/helper/shape_score.go`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from controlplane.api.go_integers import divide
from controlplane.scheduler.framework.args import ShapePoint
from controlplane.scheduler.framework.interface import MAX_NODE_SCORE


def default_normalize(scores: list[int], *, reverse: bool) -> None:
    """Scale so that the largest becomes 100; `reverse` turns the order round. In place."""
    largest = max(scores, default=0)
    if largest <= 0:
        if reverse:
            scores[:] = [MAX_NODE_SCORE] * len(scores)
        return
    if reverse:
        scores[:] = [MAX_NODE_SCORE - divide(MAX_NODE_SCORE * score, largest) for score in scores]
    else:
        scores[:] = [divide(MAX_NODE_SCORE * score, largest) for score in scores]


def normalized(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return scores of at least 0, scaled so that the largest becomes 100; all 0 remain so."""
    largest = int(scores.max()) if len(scores) else 0
    return scores if largest <= 0 else MAX_NODE_SCORE * scores // largest


def round_half_away(value: float) -> int:
    """Nearest integer, halves away from zero (Go's math.Round), exact for every float."""
    whole = int(value)
    rest = value - whole
    if rest >= 0.5:
        return whole + 1
    return whole - 1 if rest <= -0.5 else whole


def broken_linear(shape: Sequence[ShapePoint], p: int, factor: int = 1) -> int:
    """Interpolate between the points of `shape`, whose scores are multiplied by `factor`."""
    for i, point in enumerate(shape):
        if p <= point.utilization:
            if i == 0:
                return shape[0].score * factor
            before = shape[i - 1]
            rise = (point.score - before.score) * factor
            run = point.utilization - before.utilization
            return before.score * factor + divide(rise * (p - before.utilization), run)
    return shape[-1].score * factor
