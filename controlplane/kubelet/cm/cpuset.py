"""Sets of CPUs: immutable values with the list notation of Linux (`0-3,5`).

Upstream: k8s.io/utils/cpuset. A set is an integer whose bits are the CPUs, so that the operations
cost the same for any machine; ids that no machine has (negative or huge ones, from a text or a list)
are kept beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from controlplane.kubelet.cm.go_text import atoi

_NEAR: Final = 1 << 12
"""Ids below this are bits; larger ones only occur in texts, not on machines."""
_LARGEST_RANGE: Final = 1 << 24

_NONE: Final[frozenset[int]] = frozenset()


class CPUSetError(ValueError):
    """A text that is no CPU set."""


def bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set, ascending."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


class CPUSet:
    """A set of CPU ids. `mask` has a bit for each id from 0 to 4095."""

    __slots__ = ("_far", "_text", "mask")

    def __init__(self, mask: int = 0, far: frozenset[int] = _NONE) -> None:
        self.mask = mask
        self._far = far
        self._text: str | None = None

    @classmethod
    def of(cls, cpus: Iterable[int]) -> CPUSet:
        """The set of these ids."""
        mask = 0
        far = []
        for cpu in cpus:
            if 0 <= cpu < _NEAR:
                mask |= 1 << cpu
            else:
                far.append(cpu)
        return cls(mask, frozenset(far) if far else _NONE)

    @classmethod
    def parse(cls, text: str) -> CPUSet:
        """The set that a list such as `0-3,5` names; "" is the empty set. Raises ValueError."""
        if not text:
            return EMPTY
        cpus: list[int] = []
        mask = 0
        for part in text.split(","):
            first, dash, second = part.partition("-")
            start = atoi(first)
            end = atoi(second) if dash else start
            if start > end:
                raise CPUSetError(f'invalid range "{part}" ({start} > {end})')
            if start >= 0 and end < _NEAR:
                mask |= (1 << (end + 1)) - (1 << start)
            elif end - start > _LARGEST_RANGE:
                raise CPUSetError(f'invalid range "{part}": more than {_LARGEST_RANGE} CPUs')
            else:
                cpus.extend(range(start, end + 1))
        more = cls.of(cpus)
        return cls(mask | more.mask, more._far)

    def __len__(self) -> int:
        return self.mask.bit_count() + len(self._far)

    def __bool__(self) -> bool:
        return bool(self.mask or self._far)

    def __contains__(self, cpu: int) -> bool:
        return bool(self.mask >> cpu & 1) if 0 <= cpu < _NEAR else cpu in self._far

    def __iter__(self) -> Iterator[int]:
        return iter(self.to_list())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CPUSet) and self.mask == other.mask and self._far == other._far

    def __hash__(self) -> int:
        return hash((self.mask, self._far))

    def __or__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self.mask | other.mask, self._far | other._far)

    def __and__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self.mask & other.mask, self._far & other._far)

    def __sub__(self, other: CPUSet) -> CPUSet:
        return CPUSet(self.mask & ~other.mask, self._far - other._far)

    def __le__(self, other: CPUSet) -> bool:
        return not self.mask & ~other.mask and self._far <= other._far

    def to_list(self) -> list[int]:
        """The ids, ascending."""
        near = list(bits(self.mask))
        return sorted([*near, *self._far]) if self._far else near

    def __str__(self) -> str:
        if self._text is None:
            self._text = ",".join(
                str(first) if first == last else f"{first}-{last}" for first, last in self._runs()
            )
        return self._text

    def __repr__(self) -> str:
        return f"CPUSet({str(self)!r})"

    def _runs(self) -> Iterator[tuple[int, int]]:
        if self._far:
            yield from _runs_of(self.to_list())
            return
        mask, base = self.mask, 0
        while mask:
            zeros = (mask & -mask).bit_length() - 1
            mask >>= zeros
            ones = (~mask & (mask + 1)).bit_length() - 1
            first = base + zeros
            yield first, first + ones - 1
            mask >>= ones
            base = first + ones


def _runs_of(cpus: list[int]) -> Iterator[tuple[int, int]]:
    first = last = cpus[0]
    for cpu in cpus[1:]:
        if cpu != last + 1:
            yield first, last
            first = cpu
        last = cpu
    yield first, last


EMPTY: Final = CPUSet()


def union(sets: Iterable[CPUSet]) -> CPUSet:
    """All CPUs of all sets."""
    found = EMPTY
    for each in sets:
        found |= each
    return found
