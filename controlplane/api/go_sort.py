"""Sorting like Go's `slices.SortFunc` and `sort.Slice`, for comparisons that are no order: the way shows in the result.

Upstream: the Go standard library's pattern-defeating quicksort. Up to twelve items it is a plain
insertion sort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
Compare = Callable[[T, T], int]

_INSERTION: Final = 12
_NINTHER: Final = 50
_SHIFTING: Final = 50
_MAX_STEPS: Final = 5
_ALL_SWAPPED: Final = 12
_WORD: Final = (1 << 64) - 1


def sort(data: list[T], compare: Compare[T]) -> None:
    """Sort in place; `compare` is negative when its first argument goes first."""
    _Sorter(data, compare).sort(0, len(data), len(data).bit_length())


def sort_slice(data: list[T], less: Callable[[T, T], bool]) -> None:
    """Sort in place; `less` is true when its first argument goes first."""
    sort(data, lambda one, other: -1 if less(one, other) else 0)


class _Sorter(Generic[T]):
    def __init__(self, data: list[T], compare: Compare[T]) -> None:
        self.data = data
        self.compare = compare
        self.swaps = 0

    def less(self, i: int, j: int) -> bool:
        return self.compare(self.data[i], self.data[j]) < 0

    def swap(self, i: int, j: int) -> None:
        self.data[i], self.data[j] = self.data[j], self.data[i]

    def sort(self, a: int, b: int, limit: int) -> None:
        balanced = partitioned = True
        while True:
            length = b - a
            if length <= _INSERTION:
                self.insertion(a, b)
                return
            if limit == 0:
                self.heap(a, b)
                return
            if not balanced:
                self.break_patterns(a, b)
                limit -= 1
            pivot, swaps = self.choose_pivot(a, b)
            if swaps == _ALL_SWAPPED:
                self.data[a:b] = self.data[a:b][::-1]
                pivot = (b - 1) - (pivot - a)
                swaps = 0
            if balanced and partitioned and swaps == 0 and self.nearly_sorted(a, b):
                return
            if a > 0 and not self.less(a - 1, pivot):
                a = self.partition_equal(a, b, pivot)
                continue
            middle, partitioned = self.partition(a, b, pivot)
            left, right = middle - a, b - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.sort(a, middle, limit)
                a = middle + 1
            else:
                self.sort(middle + 1, b, limit)
                b = middle

    def insertion(self, a: int, b: int) -> None:
        for i in range(a + 1, b):
            j = i
            while j > a and self.less(j, j - 1):
                self.swap(j, j - 1)
                j -= 1

    def heap(self, a: int, b: int) -> None:
        size = b - a
        for i in range((size - 1) // 2, -1, -1):
            self.sift_down(i, size, a)
        for i in range(size - 1, -1, -1):
            self.swap(a, a + i)
            self.sift_down(0, i, a)

    def sift_down(self, root: int, end: int, first: int) -> None:
        while (child := 2 * root + 1) < end:
            if child + 1 < end and self.less(first + child, first + child + 1):
                child += 1
            if not self.less(first + root, first + child):
                return
            self.swap(first + root, first + child)
            root = child

    def partition(self, a: int, b: int, pivot: int) -> tuple[int, bool]:
        self.swap(a, pivot)
        i, j = self._narrow(a, a + 1, b - 1)
        if i > j:
            self.swap(j, a)
            return j, True
        while i <= j:
            self.swap(i, j)
            i, j = self._narrow(a, i + 1, j - 1)
        self.swap(j, a)
        return j, False

    def _narrow(self, pivot: int, i: int, j: int) -> tuple[int, int]:
        while i <= j and self.less(i, pivot):
            i += 1
        while i <= j and not self.less(j, pivot):
            j -= 1
        return i, j

    def partition_equal(self, a: int, b: int, pivot: int) -> int:
        self.swap(a, pivot)
        i, j = a + 1, b - 1
        while True:
            while i <= j and not self.less(a, i):
                i += 1
            while i <= j and self.less(a, j):
                j -= 1
            if i > j:
                return i
            self.swap(i, j)
            i += 1
            j -= 1

    def nearly_sorted(self, a: int, b: int) -> bool:
        """Mends a few neighbours; whether all is sorted then."""
        i = a + 1
        for _ in range(_MAX_STEPS):
            while i < b and not self.less(i, i - 1):
                i += 1
            if i == b:
                return True
            if b - a < _SHIFTING:
                return False
            self.swap(i, i - 1)
            if i - a >= 2:
                for j in range(i - 1, 0, -1):
                    if not self.less(j, j - 1):
                        break
                    self.swap(j, j - 1)
            if b - i >= 2:
                for j in range(i + 1, b):
                    if not self.less(j, j - 1):
                        break
                    self.swap(j, j - 1)
        return False

    def break_patterns(self, a: int, b: int) -> None:
        length = b - a
        state = length
        modulus = 1 << length.bit_length()
        at = a + (length // 4) * 2 - 1
        for i in range(3):
            state ^= state << 13 & _WORD
            state ^= state >> 7
            state ^= state << 17 & _WORD
            other = state & (modulus - 1)
            if other >= length:
                other -= length
            self.swap(at + i, a + other)

    def choose_pivot(self, a: int, b: int) -> tuple[int, int]:
        """The position of a median and how many swaps it took to find it."""
        self.swaps = 0
        length = b - a
        i, j, k = (a + length // 4 * part for part in (1, 2, 3))
        if length >= _NINTHER:
            i, j, k = (self.median(each - 1, each, each + 1) for each in (i, j, k))
        return self.median(i, j, k), self.swaps

    def median(self, a: int, b: int, c: int) -> int:
        a, b = self.ordered(a, b)
        b, c = self.ordered(b, c)
        a, b = self.ordered(a, b)
        return b

    def ordered(self, a: int, b: int) -> tuple[int, int]:
        if self.less(b, a):
            self.swaps += 1
            return b, a
        return a, b
