"""Leases of keys, as many as there are Events, kept in a few bytes each.

Leases that end in the same second are stored together, their numbers in an array and their texts in a list: neither
is an object of its own, and no heap is reordered with each write.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from controlplane.api.times import SECOND

__all__ = ["Lease", "Leases"]


class Lease(NamedTuple):
    """A key, as written at `revision`, goes at `deadline` (ns)."""

    deadline: int
    prefix: str
    key: str
    revision: int


class _Second:
    """Leases that end in one second, in the order in which they were attached."""

    __slots__ = ("numbers", "texts")

    def __init__(self) -> None:
        self.numbers = array("q")
        """Deadline and revision of each."""
        self.texts: list[str] = []
        """Prefix and key of each."""

    def __iter__(self) -> Iterator[Lease]:
        numbers, texts = iter(self.numbers), iter(self.texts)
        for deadline in numbers:
            yield Lease(deadline, next(texts), next(texts), next(numbers))

    def add(self, lease: Lease) -> None:
        """One more."""
        self.numbers.extend((lease.deadline, lease.revision))
        self.texts += (lease.prefix, lease.key)


class Leases:
    """All leases of a store."""

    __slots__ = ("_next", "_seconds")

    def __init__(self) -> None:
        self._seconds: dict[int, _Second] = {}
        self._next: int | None = None

    def __iter__(self) -> Iterator[Lease]:
        """All of them, in no order that means anything."""
        for second in self._seconds.values():
            yield from second

    def fork(self) -> Leases:
        """An independent copy."""
        copy = Leases()
        for lease in self:
            copy.attach(lease)
        return copy

    def attach(self, lease: Lease) -> None:
        """One more lease."""
        deadline = lease.deadline
        second = self._seconds.get(deadline // SECOND)
        if second is None:
            second = self._seconds[deadline // SECOND] = _Second()
        second.add(lease)
        if self._next is None or deadline < self._next:
            self._next = deadline

    def next_end(self) -> int | None:
        """Return the end of the next lease (ns), or None."""
        return self._next

    def ended(self, now: int) -> list[Lease]:
        """Those that have ended, by deadline and then in the order in which they were attached."""
        if self._next is None or self._next > now:
            return []
        seconds = sorted(each for each in self._seconds if each <= now // SECOND)
        found = [
            lease for each in seconds for lease in self._seconds[each] if lease.deadline <= now
        ]
        found.sort(key=lambda lease: lease.deadline)
        return found

    def drop(self, now: int) -> None:
        """Forget those that have ended."""
        last = now // SECOND
        left = list(self._seconds.get(last, ()))
        for each in [each for each in self._seconds if each <= last]:
            del self._seconds[each]
        self._next = min((min(each.numbers[::2]) for each in self._seconds.values()), default=None)
        for lease in left:
            if lease.deadline > now:
                self.attach(lease)
