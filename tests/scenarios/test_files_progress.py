"""How far a run is, in words."""

from __future__ import annotations

import pytest

from controlplane.scenarios.manifest_run import progress_text, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59, "59s"),
        (60, "1min"),
        (3599, "59min 59s"),
        (3600, "1h"),
        (3601, "1h"),
        (90_000, "1d 1h"),
        (86_400 * 1200 + 60, "1,200d"),
    ],
)
def test_a_span_is_told_by_its_two_largest_units(seconds, text):
    assert span(seconds) == text


def test_done_of_total_and_the_time_left_are_told_once_something_is_done():
    assert progress_text(4096, 0, 2.0, 0, 0) == "4,096 steps, 2,048/s, virtual time 0s"
    begun = progress_text(4096, 7200 * 10**9, 2.0, 0, 10)
    assert begun == "4,096 steps, 2,048/s, virtual time 2h, 0 of 10 pods bound"
    assert progress_text(1, 0, 30.0, 25, 100).endswith("25 of 100 pods bound, about 1min 30s left")
    assert progress_text(1, 0, 0.0, 100, 100).endswith("100 of 100 pods bound")
