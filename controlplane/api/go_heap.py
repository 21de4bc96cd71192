"""A keyed heap with the exact layout rules of Go's `container/heap`.

The layout matters: entries that compare equal leave in an order that only the sequence of swaps
decides, so this heap performs the same swaps as upstream (the scheduler's `pkg/scheduler/backend/heap`,
Kueue's `pkg/util/heap`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Heap(Generic[T]):
    """Entries with unique string keys, smallest (by `less`) first."""

    __slots__ = ("_index", "_items", "_keys", "_less", "changes", "key_of")

    def __init__(self, key_of: Callable[[T], str], less: Callable[[T, T], bool]) -> None:
        self.key_of = key_of
        self._less = less
        self._items: list[T] = []
        self._keys: list[str] = []
        self._index: dict[str, int] = {}
        self.changes = 0
        """The number of entries pushed and removed so far."""

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._index

    def __iter__(self) -> Iterator[T]:
        """Entries in heap layout order (not sorted)."""
        return iter(self._items)

    def get(self, key: str) -> T | None:
        """Return the entry stored under `key`, or None."""
        index = self._index.get(key)
        return None if index is None else self._items[index]

    def peek(self) -> T | None:
        """Return the first entry without removing it, or None when empty."""
        return self._items[0] if self._items else None

    def push(self, item: T) -> None:
        """Insert `item`, or replace the entry with its key and restore the order (Fix)."""
        self.changes += 1
        key = self.key_of(item)
        index = self._index.get(key)
        if index is not None:
            self._items[index] = item
            if not self._down(index, len(self._items)):
                self._up(index)
            return
        self._index[key] = len(self._items)
        self._items.append(item)
        self._keys.append(key)
        self._up(len(self._items) - 1)

    def pop(self) -> T | None:
        """Remove and return the first entry, or None when empty."""
        if not self._items:
            return None
        last = len(self._items) - 1
        self._swap(0, last)
        self._down(0, last)
        return self._drop_last()

    def remove(self, key: str) -> T | None:
        """Remove and return the entry under `key`, or None when absent."""
        index = self._index.get(key)
        if index is None:
            return None
        last = len(self._items) - 1
        if last != index:
            self._swap(index, last)
            if not self._down(index, last):
                self._up(index)
        return self._drop_last()

    def rebuild(self) -> None:
        """Restore the order after the comparison of several entries changed (Init)."""
        size = len(self._items)
        for start in range(size // 2 - 1, -1, -1):
            self._down(start, size)

    def sorted(self) -> list[T]:
        """Every entry in the order in which `pop` would return them; the heap is not changed."""
        copy = Heap(self.key_of, self._less)
        copy._items = list(self._items)
        copy._keys = list(self._keys)
        copy._index = dict(self._index)
        out: list[T] = []
        while copy._items:
            item = copy.pop()
            assert item is not None
            out.append(item)
        return out

    def _drop_last(self) -> T:
        self.changes += 1
        del self._index[self._keys.pop()]
        return self._items.pop()

    def _swap(self, i: int, j: int) -> None:
        items, keys, index = self._items, self._keys, self._index
        items[i], items[j] = items[j], items[i]
        keys[i], keys[j] = keys[j], keys[i]
        index[keys[i]] = i
        index[keys[j]] = j

    def _up(self, j: int) -> None:
        items, less = self._items, self._less
        while j > 0:
            parent = (j - 1) // 2
            if not less(items[j], items[parent]):
                break
            self._swap(parent, j)
            j = parent

    def _down(self, start: int, size: int) -> bool:
        items, less = self._items, self._less
        i = start
        while (j := 2 * i + 1) < size:
            right = j + 1
            if right < size and less(items[right], items[j]):
                j = right
            if not less(items[j], items[i]):
                break
            self._swap(i, j)
            i = j
        return i > start
