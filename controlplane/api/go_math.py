"""Go's exponential and logarithm on amd64, equal to the last bit.

Go computes `math.Exp` and `math.Log` on amd64 by code of its own, whose results differ from those of the C library in
the last place: the logarithm for one integer of a hundred, the exponential for one number of eight. A score that
subtracts two exponentials and multiplies the difference by 1e15 shows that place, and so does an order by entropy.

Upstream: src/math/exp_amd64.s, after Shibata, "Efficient evaluation methods of elementary functions suitable for SIMD
computation", 2010; src/math/log_amd64.s, after FreeBSD's e_log.c.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

_LOG2_E: Final = 1.4426950408889634
# ln 2 in two parts, so that an integer times the first is exact.
_EXP_UPPER, _EXP_LOWER = 0.69314718055966295651160180568695068359375, 0.28235290563031577e-12
_LOG_UPPER, _LOG_LOWER = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_LARGEST: Final = 7.09782712893384e02
# 1/8!, 1/7!, ... 1/2!, 1: the Taylor series, highest power first.
_SERIES: Final = tuple(1 / math.factorial(power) for power in range(8, 0, -1))
# Coefficients of the logarithm's series in s = f/(2+f): those of even and of odd index, highest first.
_ODD: Final = (
    1.479819860511658591e-01,
    1.818357216161805012e-01,
    2.857142874366239149e-01,
    6.666666666666735130e-01,
)
_EVEN: Final = (1.531383769920937332e-01, 2.222219843214978396e-01, 3.999999999940941908e-01)


def go_exp(x: float) -> float:
    """Return e to the power of `x` as Go computes it on an amd64 processor with fused multiply-add."""
    if not math.isfinite(x):
        return 0.0 if x == -math.inf else x
    if x > _LARGEST:
        return math.inf
    exponent = round(_LOG2_E * x)  # to even, as the processor rounds
    rest = _fused(-_EXP_UPPER, exponent, x)
    rest = _fused(-_EXP_LOWER, exponent, rest) * 0.0625
    total = _SERIES[0]
    for factor in _SERIES[1:]:
        total = _fused(total, rest, factor)
    # e^(16r) - 1 from e^r - 1: each doubling is (1 + y)^2 - 1 = y (y + 2).
    rest *= total
    for _ in range(3):
        rest *= rest + 2
    return math.ldexp(_fused(rest + 2, rest, 1.0), exponent)


def go_log(x: float) -> float:
    """Return the natural logarithm of `x` as Go computes it on amd64; NaN of a negative number."""
    if x == 0:
        return -math.inf
    if x < 0:
        return math.nan
    if not math.isfinite(x):
        return x
    fraction, exponent = math.frexp(x)
    if fraction < math.sqrt(2) / 2:
        fraction, exponent = 2 * fraction, exponent - 1
    f = fraction - 1
    s = f / (2 + f)
    square = s * s
    fourth = square * square
    series = square * _horner(_ODD, fourth) + fourth * _horner(_EVEN, fourth)
    half = 0.5 * f * f
    return exponent * _LOG_UPPER - ((half - (s * (half + series) + exponent * _LOG_LOWER)) - f)


def go_log2(x: float) -> float:
    """Return the logarithm of a positive `x` to base 2 as Go computes it; exact for powers of two."""
    fraction, exponent = math.frexp(x)
    return (
        float(exponent - 1) if fraction == 0.5 else go_log(fraction) * (1 / math.log(2)) + exponent
    )


def go_log10(x: float) -> float:
    """Return the logarithm of `x` to base 10 as Go computes it."""
    return go_log(x) * 0.4342944819032518  # 1/ln 10


def _horner(coefficients: tuple[float, ...], x: float) -> float:
    """Return the polynomial with these coefficients, highest power first, at x."""
    total = coefficients[0]
    for each in coefficients[1:]:
        total = total * x + each
    return total


def _fused(a: float, b: float, c: float) -> float:
    """Return a * b + c rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))
