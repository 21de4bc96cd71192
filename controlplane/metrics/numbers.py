"""Counters and gauges by name and labels: for what is counted too rarely to be worth a field of its own."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["Labels", "Metrics"]

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Numbers by name and labels; all holders of an instance count together."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, Labels], float] = {}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Raise (or, with a negative amount, lower) a number that begins at 0."""
        key = (name, tuple(sorted(labels.items())))
        self._values[key] = self._values.get(key, 0) + amount

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._values[name, tuple(sorted(labels.items()))] = value

    def get(self, name: str, **labels: str) -> float:
        """The number, 0 if it was never set."""
        return self._values.get((name, tuple(sorted(labels.items()))), 0)

    def items(self) -> Iterator[tuple[str, Labels, float]]:
        """Everything that was touched, by name and labels."""
        for (name, labels), value in sorted(self._values.items()):
            yield name, labels, value
