"""Indexes of indexed jobs, written as numbers and intervals: "0,2-4". Upstream: pkg/apis/batch/validation."""

from __future__ import annotations

import re

__all__ = ["IndexesError", "count_indexes", "overlap_problem"]

_INTEGER = re.compile(r"[+-]?[0-9]+")


Interval = tuple[int, int]


class IndexesError(ValueError):
    """Indexes that cannot be read, in upstream's words."""


def count_indexes(text: str, completions: int) -> int:
    """Return the number of indexes in a text, for a job with that many completions; IndexesError if it is malformed."""
    last: int | None = None
    total = 0
    for part in text.split(",") if text else ():
        first, end = _interval(part, completions)
        if last is not None and last >= first:
            raise IndexesError(f"non-increasing order, previous: {last}, current: {first}")
        total += end - first + 1
        last = end
    return total


def overlap_problem(completed: str, failed: str, completions: int) -> str:
    """Return the error of indexes that both completed and failed; "" if there are none.

    Parts that cannot be parsed are skipped: the form is validated elsewhere.
    """
    if not completed or not failed:
        return ""
    done, lost = _readable(completed, completions), _readable(failed, completions)
    while done and lost:
        (first, end), (start, stop) = done[-1], lost[-1]
        if first <= stop and start <= end:
            return f"failedIndexes and completedIndexes overlap at index: {max(first, start)}"
        (done if first <= start else lost).pop()
    return ""


def _readable(text: str, completions: int) -> list[Interval]:
    """The intervals that can be read, the first one last."""
    found = []
    for part in text.split(","):
        try:
            found.append(_interval(part, completions))
        except IndexesError:
            continue
    found.reverse()
    return found


def _interval(part: str, completions: int) -> Interval:
    ends = part.split("-")
    if len(ends) > 2:
        raise IndexesError(
            f'the fragment "{part}" violates the requirement that an index interval can have at most '
            "two parts separated by '-'"
        )
    first = _index(ends[0], completions)
    if len(ends) == 1:
        return first, first
    end = _index(ends[1], completions)
    if first >= end:
        raise IndexesError(f"non-increasing order, previous: {first}, current: {end}")
    return first, end


def _index(text: str, completions: int) -> int:
    if not _INTEGER.fullmatch(text) or abs(int(text)) >= 1 << 63:
        raise IndexesError(f'cannot convert string to integer for index: "{text}"')
    if int(text) >= completions:
        raise IndexesError(f'too large index: "{text}"')
    return int(text)
