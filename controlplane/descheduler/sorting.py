"""Go's `sort.Slice`: a pattern-defeating quicksort that is not stable.

The order of equal elements, and the result of a comparison that is no strict weak order, depend on the
algorithm; the descheduler has such comparisons, so the algorithm is part of its behaviour. Follows `sort`
of the Go library (`pdqsort_func`).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, Generic, TypeVar

T = TypeVar("T")
SHORT: Final = 12
"""Up to this length an insertion sort is used."""
MEDIAN_OF_THREE: Final = 8
TUKEY_NINTHER: Final = 50
MOST_SWAPS: Final = 12
MOST_STEPS: Final = 5
SHORTEST_SHIFTED: Final = 50
_MASK: Final = (1 << 64) - 1


class _Hint(Enum):
    UNKNOWN = 0
    INCREASING = 1
    DECREASING = 2


def go_sort(items: list[T], less: Callable[[T, T], bool]) -> None:
    """Sort a list in place as Go's `sort.Slice` does with the same comparison."""
    _Sorter(items, less).sort(0, len(items), len(items).bit_length())


class _Sorter(Generic[T]):
    def __init__(self, items: list[T], less: Callable[[T, T], bool]) -> None:
        self._items = items
        self._compare = less

    def _less(self, i: int, j: int) -> bool:
        return self._compare(self._items[i], self._items[j])

    def _swap(self, i: int, j: int) -> None:
        self._items[i], self._items[j] = self._items[j], self._items[i]

    def sort(self, a: int, b: int, limit: int) -> None:
        """Sort the part [a, b); after `limit` unbalanced partitions heap sort takes over."""
        balanced = partitioned = True
        while True:
            length = b - a
            if length <= SHORT:
                self._insertion(a, b)
                return
            if limit == 0:
                self._heap(a, b)
                return
            if not balanced:
                self._break_patterns(a, b)
                limit -= 1
            pivot, hint = self._choose_pivot(a, b)
            if hint is _Hint.DECREASING:
                self._reverse(a, b)
                pivot = (b - 1) - (pivot - a)
                hint = _Hint.INCREASING
            if (
                balanced
                and partitioned
                and hint is _Hint.INCREASING
                and self._partial_insertion(a, b)
            ):
                return
            if a > 0 and not self._less(a - 1, pivot):
                a = self._partition_equal(a, b, pivot)
                continue
            middle, partitioned = self._partition(a, b, pivot)
            left, right = middle - a, b - middle
            if left < right:
                balanced = left >= length // 8
                self.sort(a, middle, limit)
                a = middle + 1
            else:
                balanced = right >= length // 8
                self.sort(middle + 1, b, limit)
                b = middle

    def _insertion(self, a: int, b: int) -> None:
        for i in range(a + 1, b):
            j = i
            while j > a and self._less(j, j - 1):
                self._swap(j, j - 1)
                j -= 1

    def _sift_down(self, low: int, high: int, first: int) -> None:
        root = low
        while (child := 2 * root + 1) < high:
            if child + 1 < high and self._less(first + child, first + child + 1):
                child += 1
            if not self._less(first + root, first + child):
                return
            self._swap(first + root, first + child)
            root = child

    def _heap(self, a: int, b: int) -> None:
        high = b - a
        for i in range((high - 1) // 2, -1, -1):
            self._sift_down(i, high, a)
        for i in range(high - 1, -1, -1):
            self._swap(a, a + i)
            self._sift_down(0, i, a)

    def _partition(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        self._swap(a, pivot)
        i, j = a + 1, b - 1
        i, j = self._narrow(a, i, j)
        if i > j:
            self._swap(j, a)
            return j, True
        self._swap(i, j)
        i, j = i + 1, j - 1
        while True:
            i, j = self._narrow(a, i, j)
            if i > j:
                break
            self._swap(i, j)
            i, j = i + 1, j - 1
        self._swap(j, a)
        return j, False

    def _narrow(self, pivot: int, i: int, j: int) -> tuple[int, int]:
        while i <= j and self._less(i, pivot):
            i += 1
        while i <= j and not self._less(j, pivot):
            j -= 1
        return i, j

    def _partition_equal(self, a: int, b: int, pivot: int) -> int:
        self._swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not self._less(a, i):
                i += 1
            while i <= j and self._less(a, j):
                j -= 1
            if i > j:
                return i
            self._swap(i, j)
            i, j = i + 1, j - 1

    def _partial_insertion(self, a: int, b: int) -> bool:
        i = a + 1
        for _ in range(MOST_STEPS):
            while i < b and not self._less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < SHORTEST_SHIFTED:
                return False
            self._swap(i, i - 1)
            if i - a >= 2:
                for j in range(i - 1, 0, -1):
                    if not self._less(j, j - 1):
                        break
                    self._swap(j, j - 1)
            if b - i >= 2:
                for j in range(i + 1, b):
                    if not self._less(j, j - 1):
                        break
                    self._swap(j, j - 1)
        return False

    def _break_patterns(self, a: int, b: int) -> None:
        length = b - a
        if length < MEDIAN_OF_THREE:
            return
        random = length
        modulus = 1 << length.bit_length()
        index = a + (length // 4) * 2 - 1
        for i in range(3):
            random ^= (random << 13) & _MASK
            random ^= random >> 7
            random ^= (random << 17) & _MASK
            other = random & (modulus - 1)
            if other >= length:
                other -= length
            self._swap(index - 1 + i, a + other)

    def _choose_pivot(self, a: int, b: int) -> tuple[int, _Hint]:
        length = b - a
        swaps = [0]
        i, j, k = a + length // 4, a + length // 4 * 2, a + length // 4 * 3
        if length >= MEDIAN_OF_THREE:
            if length >= TUKEY_NINTHER:
                i = self._median(i - 1, i, i + 1, swaps)
                j = self._median(j - 1, j, j + 1, swaps)
                k = self._median(k - 1, k, k + 1, swaps)
            j = self._median(i, j, k, swaps)
        if swaps[0] == 0:
            return j, _Hint.INCREASING
        if swaps[0] == MOST_SWAPS:
            return j, _Hint.DECREASING
        return j, _Hint.UNKNOWN

    def _median(self, a: int, b: int, c: int, swaps: list[int]) -> int:
        a, b = self._ordered(a, b, swaps)
        b, c = self._ordered(b, c, swaps)
        a, b = self._ordered(a, b, swaps)
        return b

    def _ordered(self, a: int, b: int, swaps: list[int]) -> tuple[int, int]:
        if self._less(b, a):
            swaps[0] += 1
            return b, a
        return a, b

    def _reverse(self, a: int, b: int) -> None:
        self._items[a:b] = self._items[a:b][::-1]
