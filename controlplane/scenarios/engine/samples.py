"""Samples of a cluster's metrics over virtual time: the changes, at whole seconds.

Samples are taken when time is about to move on, so that everything of a second has happened, and
nothing of a run depends on them: they take no step, and no clock but the world's is asked. Of a long
run they are taken more and more rarely.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import TYPE_CHECKING, Final, Literal

from attrs import frozen

from actors.jsonl import seconds
from controlplane.api.times import SECOND
from controlplane.metrics.exposition import number
from controlplane.metrics.family import Buckets, Family

if TYPE_CHECKING:
    from controlplane.metrics.numbers import Labels

__all__ = ["MOST", "Row", "Samples", "rows_of"]

MOST: Final = 600
"""The number of samples after which the interval between samples doubles."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode
Kind = Literal["counter", "gauge"]


@frozen
class Row:
    """One number as Prometheus would store it: of a histogram its _bucket, _sum and _count are numbers of their own."""

    name: str
    kind: Kind
    labels: Labels
    value: float


def rows_of(families: Iterable[Family]) -> Iterator[Row]:
    """Every number of a snapshot. Buckets into which nothing fell are left out: they are what those below them are."""
    for family in families:
        kind: Kind = "gauge" if family.kind == "gauge" else "counter"
        for sample in family.samples:
            labels, value = sample.labels, sample.value
            if not isinstance(value, Buckets):
                yield Row(family.name, kind, labels, value)
                continue
            name, below = f"{family.name}_bucket", 0
            for bound, count in zip((*value.bounds, inf), (*value.at_most, value.count)):
                if count > below:
                    le = "+Inf" if bound == inf else number(bound)
                    yield Row(name, kind, (*labels, ("le", le)), count)
                below = count
            yield Row(f"{family.name}_sum", kind, labels, value.sum)
            yield Row(f"{family.name}_count", kind, labels, value.count)


class Samples:
    """The changes of a cluster's numbers. A number that is not there yet is 0."""

    def __init__(self, look: Callable[[], Iterable[Family]], every_ns: int = SECOND) -> None:
        """`look` takes a snapshot; it is called at multiples of `every_ns`, at first."""
        self._look = look
        self._every = every_ns
        self._due = 0
        self._taken = 0
        self._known: dict[tuple[str, Labels], float] = {}
        self._lines: list[str] = []

    def passes(self, now_ns: int, until_ns: int) -> None:
        """Time is about to move from `now_ns` to `until_ns`: in between nothing changes."""
        due = -(-max(now_ns, self._due) // self._every) * self._every
        if due < until_ns:
            self._take(due)
            self._due = due + self._every

    def end(self, now_ns: int) -> None:
        """The run has ended."""
        self._take(now_ns)

    def lines(self, run: str) -> Iterator[str]:
        """The changes as JSON lines, by time; `run` is what the log calls the run."""
        last = f',"run":{_encode(run)}}}\n'
        return (line + last for line in self._lines)

    def _take(self, at_ns: int) -> None:
        known, moment = self._known, seconds(at_ns)
        for row in rows_of(self._look()):
            key = row.name, row.labels
            if known.get(key, 0) == row.value:
                continue
            known[key] = row.value
            self._lines.append(
                f'{{"labels":{_encode(dict(row.labels))},"name":{_encode(row.name)},'
                f'"t":{moment},"type":"{row.kind}","value":{number(row.value)}'
            )
        self._taken += 1
        if self._taken % MOST == 0:
            self._every *= 2
