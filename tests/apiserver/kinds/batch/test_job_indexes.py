"""Lists of indexes of an indexed job."""

from __future__ import annotations

import pytest

from controlplane.apiserver.kinds.batch.job_indexes import (
    IndexesError,
    count_indexes,
    overlap_problem,
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", 0),
        ("0,2-4", 4),
        ("x", 'cannot convert string to integer for index: "x"'),
        ("0-y", 'cannot convert string to integer for index: "y"'),
        ("1-2-3", "the fragment \"1-2-3\" violates the requirement that an index interval can have "
                  "at most two parts separated by '-'"),
        ("5", 'too large index: "5"'),
        ("1-5", 'too large index: "5"'),
        ("2-1", "non-increasing order, previous: 2, current: 1"),
        ("0-2,2", "non-increasing order, previous: 2, current: 2"),
    ],
)  # fmt: skip
def test_indexes_are_counted_or_told_wrong(text: str, told: object) -> None:
    try:
        found: object = count_indexes(text, 5)
    except IndexesError as problem:
        found = str(problem)
    assert found == told


def test_indexes_that_completed_cannot_have_failed() -> None:
    assert overlap_problem("0-1,x,4", "2-3", 5) == ""
    assert overlap_problem("0-1,3-4", "2,4", 5) == (
        "failedIndexes and completedIndexes overlap at index: 4"
    )
