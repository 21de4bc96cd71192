"""Timing: several runs, the median counts."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import asdict, frozen


@frozen
class Row:
    """One figure: its name, unit, and the values of the runs."""

    name: str
    unit: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "median": self.median}


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long `work` takes on the wall, and what it returns. The collector starts clean."""
    gc.collect()
    start = time.perf_counter()
    value = work()
    return time.perf_counter() - start, value


def rate(name: str, unit: str, repeat: int, work: Callable[[], int]) -> Row:
    """Runs `work`, which answers how many units it did; the figure is units per second."""
    work()
    values = []
    for _ in range(repeat):
        taken, count = seconds(work)
        values.append(count / taken)
    return Row(name, unit, tuple(values))


def resident(pid: int) -> int:
    """Bytes of memory that a process holds. Needs /proc."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) * 1024
