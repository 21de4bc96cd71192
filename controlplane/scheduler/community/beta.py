"""The beta distribution: the probability that a load with a mean and a deviation stays below a threshold.

Upstream: pkg/trimaran/lowriskovercommitment/beta.go.
"""

from __future__ import annotations

import math
from typing import Final

from controlplane.api.go_math import go_exp, go_log

__all__ = ["below", "probability", "shape"]

_TURNS: Final = 300
_SMALLEST: Final = 5e-324
_TINY: Final = 1e-300


def shape(mean: float, second: float) -> tuple[float, float] | None:
    """Return alpha and beta of the distribution with these moments; None where there is none."""
    variance = second - mean * mean
    if mean < 0 or mean > 1 or variance < 0 or variance >= mean * (1 - mean):
        return None
    factor = max((mean * (1 - mean) / variance) - 1 if variance else math.inf, _SMALLEST)
    return mean * factor, (1 - mean) * factor


def below(threshold: float, alpha: float, beta: float) -> float:
    """Return the probability of a value up to the threshold; 0 where it cannot be computed."""
    if alpha <= 0 or beta <= 0 or not 0 <= threshold <= 1 or not math.isfinite(alpha + beta):
        return 0.0
    if threshold in (0.0, 1.0):
        return threshold
    found = _incomplete(threshold, alpha, beta)
    return found if 0 <= found <= 1 else 0.0


def _incomplete(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by its continued fraction."""
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete(1 - x, b, a)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = go_exp(log + a * go_log(x) + b * math.log1p(-x)) / a
    f, c, d = 1.0, 1.0, 0.0
    for turn in range(_TURNS):
        m = turn // 2
        if turn == 0:
            part = 1.0
        elif turn % 2 == 0:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 + part * d
        d = 1 / (d if abs(d) > _TINY else _TINY)
        c = 1 + part / c
        c = c if abs(c) > _TINY else _TINY
        f *= c * d
        if abs(1 - c * d) < 1e-15:
            break
    return front * (f - 1)


def probability(
    mean: float, deviation: float, threshold: float
) -> tuple[float, tuple[float, float] | None]:
    """Return the probability of a load up to the threshold, and the distribution that was fitted, if any."""
    if mean == 0 or (deviation == 0 and mean <= threshold):
        return 1.0, None
    if deviation == 0:
        return 0.0, None
    found = shape(mean, deviation * deviation + mean * mean)
    return (0.0, None) if found is None else (below(threshold, *found), found)
