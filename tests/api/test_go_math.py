"""Go's exponential and logarithm: equal to the last bit.

The bits were printed by Go 1.26 on amd64.
"""

import math
import struct

import pytest

from controlplane.api.go_math import go_exp, go_log, go_log2, go_log10


def bits(value: float) -> str:
    return struct.pack(">d", value).hex()


# Arguments for which the C library's last bit is another one.
@pytest.mark.parametrize(
    ("function", "library", "x", "expected"),
    [
        (go_exp, math.exp, -297.04, "25260981f6f41828"),
        (go_exp, math.exp, 57.79000000000002, "4524b9c51c822b3d"),
        (go_exp, math.exp, 384.5, "629a494fc843ea65"),
        (go_log, math.log, 3.0, "3ff193ea7aad030a"),
        (go_log, math.log, 48.0, "400ef8383c50bb74"),
        (go_log, math.log, 176.0, "4014ae935b3cb89e"),
        (go_log2, math.log2, 0.03663, "c0131554966f63e1"),
        (go_log2, math.log2, 0.06364, "c00fca97cd9dd21a"),
        (go_log10, math.log10, 0.0011099999999999999, "c007a32db4c2d501"),
        (go_log10, math.log10, 0.00185, "c005dcd511a0beff"),
    ],
)
def test_the_last_bit_is_gos(function, library, x, expected):
    assert bits(function(x)) == expected
    assert abs(function(x) - library(x)) <= 2 * math.ulp(library(x))


def test_powers_of_two_have_exact_logarithms():
    assert [go_log2(2.0**power) for power in range(-40, 41)] == [*map(float, range(-40, 41))]


def test_values_beyond_the_range_are_limits():
    assert (go_exp(-math.inf), go_exp(-800.0), go_exp(710.0)) == (0.0, 0.0, math.inf)
    assert (go_log(0.0), go_log(math.inf)) == (-math.inf, math.inf)
    assert math.isnan(go_log(-1.0)) and math.isnan(go_exp(math.nan))
