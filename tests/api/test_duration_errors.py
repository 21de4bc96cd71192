"""Malformed durations are refused in Go's words."""

from __future__ import annotations

import pytest

from controlplane.api.durations import DurationError, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", 'time: invalid duration "x"'),
        ("", 'time: invalid duration ""'),
        ("1", 'time: missing unit in duration "1"'),
        ("1m30", 'time: missing unit in duration "1m30"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("9999999999h", 'time: invalid duration "9999999999h"'),
        ("\u00e9", 'time: invalid duration "\\xc3\\xa9"'),
    ],
)
def test_errors(text: str, expected: str) -> None:
    with pytest.raises(DurationError) as error:
        parse_duration(text)
    assert str(error.value) == expected
