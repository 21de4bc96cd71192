"""Rows in order of steps, kept and sent column by column: a column packs far better than objects do."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

__all__ = ["Columns", "steps_apart"]


class Columns:
    """Named lists of equal length; the first is called `step` and never falls."""

    def __init__(self, *names: str) -> None:
        self.step: list[int] = []
        self.lists: dict[str, list[Any]] = {name: [] for name in names}

    def __len__(self) -> int:
        return len(self.step)

    def add(self, step: int, *values: Any) -> None:
        """Add a row, one value for each name."""
        self.step.append(step)
        for column, value in zip(self.lists.values(), values, strict=True):
            column.append(value)

    def after(self, step: int, last: int | None = None) -> dict[str, list[Any]]:
        """The rows of later steps, up to step `last`.

        Steps are told as their distance from the row before, the first from 0.
        """
        start = bisect_right(self.step, step)
        end = len(self.step) if last is None else bisect_right(self.step, last)
        found: dict[str, list[Any]] = {"step": steps_apart(self.step[start:end])}
        found.update({name: column[start:end] for name, column in self.lists.items()})
        return found


def steps_apart(numbers: list[int]) -> list[int]:
    """Each number as its distance from the one before, the first from 0: small numbers pack well."""
    return [now - before for before, now in zip([0, *numbers], numbers, strict=False)]
