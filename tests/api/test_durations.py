import pytest

from controlplane.api.durations import format_duration
from controlplane.api.times import SECOND


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (SECOND // 2, "500ms"),
        (10 * SECOND, "10s"),
        (80 * SECOND, "1m20s"),
        (300 * SECOND, "5m0s"),
        (1_500_000_000, "1.5s"),
        (3_600 * SECOND, "1h0m0s"),
    ],
)
def test_durations_print_as_in_go(ns, text):
    assert format_duration(ns) == text
