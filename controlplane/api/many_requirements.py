"""Many requirements on labels at once: what they cost goes by the labels of an object, not by their number.

A selector may be as long as a request's line, and is asked for every object and event of a watch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

__all__ = ["FEW", "ManyRequirements"]

FEW: Final = 16
"""The number of requirements up to which they are tested one after the other."""


class Requirement(Protocol):
    """One condition on one label; see `labels.Requirement`."""

    key: str
    operator: str

    @property
    def one_of(self) -> frozenset[str] | None:
        """The values that the label must have one of; None where it is no such condition."""

    @property
    def none_of(self) -> frozenset[str] | None:
        """The values that the label must have none of; None where it is no such condition."""

    def tighter_than(self, other: Any) -> bool:
        """Return whether a condition of the same operator on the same label lets less pass."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a set of labels meets the condition."""


class _Label:
    """All conditions on one label."""

    __slots__ = ("excluded", "others", "wanted")

    def __init__(self) -> None:
        self.wanted: frozenset[str] | None = None
        self.excluded: set[str] = set()
        self.others: dict[str, Requirement] = {}

    def add(self, item: Requirement) -> None:
        one_of, none_of = item.one_of, item.none_of
        if one_of is not None:
            self.wanted = one_of if self.wanted is None else self.wanted & one_of
        elif none_of is not None:
            self.excluded |= none_of
        else:
            known = self.others.get(item.operator)
            if known is None or item.tighter_than(known):
                self.others[item.operator] = item

    def matches(self, key: str, value: str) -> bool:
        if self.wanted is not None and value not in self.wanted:
            return False
        if value in self.excluded:
            return False
        return all(item.matches({key: value}) for item in self.others.values())


class ManyRequirements:
    """Requirements that must all hold."""

    __slots__ = ("_labels", "_needed")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._labels: dict[str, _Label] = {}
        needed: dict[str, None] = {}
        for item in requirements:
            label = self._labels.get(item.key)
            if label is None:
                label = self._labels[item.key] = _Label()
            label.add(item)
            if not item.matches({}):
                needed[item.key] = None
        self._needed = frozenset(needed)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether a set of labels meets every requirement."""
        if len(self._needed) > len(labels) or not self._needed <= labels.keys():
            return False
        for key, value in labels.items():
            label = self._labels.get(key)
            if label is not None and not label.matches(key, value):
                return False
        return True
