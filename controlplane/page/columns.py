"""Rows in order of steps, kept and sent column by column: a column packs far better than objects do."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sized

__all__ = ["Columns", "steps_apart"]


class Columns:
    """Named lists of equal length; the first is called `step` and never falls.

    Values may be numbers of texts: `texts` tells how many there are.
    """

    def __init__(self, texts: Sized, *names: str) -> None:
        self.step: list[int] = []
        self.lists: dict[str, list[Any]] = {name: [] for name in names}
        self._texts = texts
        self._named: list[int] = []

    def __len__(self) -> int:
        return len(self.step)

    def add(self, step: int, *values: Any) -> None:
        """Add a row, one value for each name."""
        self.step.append(step)
        self._named.append(len(self._texts))
        for column, value in zip(self.lists.values(), values, strict=True):
            column.append(value)

    def after(self, step: int, last: int | None = None) -> dict[str, list[Any]]:
        """The rows of later steps, up to step `last`.

        Steps are given as their distance from the row before, the first from 0.
        """
        start, end = bisect_right(self.step, step), self._end(last)
        found: dict[str, list[Any]] = {"step": steps_apart(self.step[start:end])}
        found.update({name: column[start:end] for name, column in self.lists.items()})
        return found

    def texts(self, last: int | None) -> int:
        """The number of texts that the rows up to step `last` refer to."""
        end = self._end(last)
        return self._named[end - 1] if end else 0

    def _end(self, last: int | None) -> int:
        return len(self.step) if last is None else bisect_right(self.step, last)


def steps_apart(numbers: list[int]) -> list[int]:
    """Each number as its distance from the one before, the first from 0: small numbers pack well."""
    return [now - before for before, now in zip([0, *numbers], numbers, strict=False)]
