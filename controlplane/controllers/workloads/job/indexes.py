"""Completion indexes as ordered intervals, and their text "0,2-4,7,8". Upstream: job/indexed_job_utils.go."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NUMBER = re.compile(r"[+-]?[0-9]+")


class Interval(NamedTuple):
    """From `first` to `last`, both inside. A text may hold a reversed one; it counts negative."""

    first: int
    last: int


class Intervals:
    """Intervals in order."""

    __slots__ = ("parts",)

    def __init__(self, parts: Iterable[Interval] = ()) -> None:
        self.parts = list(parts)

    def __iter__(self) -> Iterator[Interval]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __contains__(self, index: int) -> bool:
        low, high = 0, len(self.parts)
        while low < high:
            middle = (low + high) // 2
            if self.parts[middle].last >= index:
                high = middle
            else:
                low = middle + 1
        return high < len(self.parts) and self.parts[high].first <= index

    def __str__(self) -> str:
        texts = []
        for first, last in self.parts:
            if last <= first:
                texts.append(str(first))
            else:
                texts.append(f"{first}{',' if last == first + 1 else '-'}{last}")
        return ",".join(texts)

    @property
    def total(self) -> int:
        """The number of indexes."""
        return sum(last - first + 1 for first, last in self.parts)

    def merged(self, other: Intervals) -> Intervals:
        """The union, touching intervals joined."""
        parts: list[Interval] = []
        mine, others = list(self.parts), list(other.parts)
        while mine or others:
            source = mine if mine and (not others or mine[0].first < others[0].first) else others
            each = source.pop(0)
            if not parts or each.first > parts[-1].last + 1:
                parts.append(each)
            elif parts[-1].last < each.last:
                parts[-1] = Interval(parts[-1].first, each.last)
        return Intervals(parts)

    def with_indexes(self, indexes: Iterable[int]) -> Intervals:
        """The union with single indexes, given in increasing order."""
        return self.merged(Intervals(Interval(index, index) for index in indexes))

    def free(self, count: int, completions: int) -> list[int]:
        """The first `count` indexes below `completions` that are not inside."""
        found: list[int] = []
        candidate = 0
        for first, last in [*self.parts, Interval(completions, completions)]:
            end = min(first, completions, candidate + count - len(found))
            found.extend(range(candidate, end))
            candidate = max(candidate, end, last + 1)
            if len(found) >= count:
                break
        return found


def parse(text: str, completions: int) -> Intervals:
    """The intervals of a text, cut off at `completions`; what is no number is left out."""
    parts: list[Interval] = []
    for each in text.split(",") if text else ():
        limits = each.split("-")
        if not _NUMBER.fullmatch(limits[0]):
            continue
        first = int(limits[0])
        if first >= completions:
            break
        last = first
        if len(limits) > 1:
            if not _NUMBER.fullmatch(limits[1]):
                continue
            last = min(int(limits[1]), completions - 1)
        if parts and parts[-1].last == first - 1:
            parts[-1] = Interval(parts[-1].first, last)
        else:
            parts.append(Interval(first, last))
    return Intervals(parts)
