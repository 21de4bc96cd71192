"""The metrics of components over virtual time: `metrics.jsonl` beside a run's log.

One JSON object a line, a number under upstream's name and labels that changed at that time; before its
first line it is 0, after its last line it stays. Histograms are three kinds of numbers, as Prometheus
stores them: `_bucket` with the label `le`, `_sum` and `_count`; a bucket into which nothing fell is left
out, and has as many as the one below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import msgspec
from attrs import Factory, define

from controlplane.errors import UsageError
from controlplane.logs.reading import DAMAGED

__all__ = ["NAME", "Number", "Series", "beside", "read", "schema", "sparkline"]

NAME: Final = "metrics.jsonl"
VERSION: Final = 1
_BARS: Final = "▁▂▃▄▅▆▇█"


class Number(msgspec.Struct, gc=False, frozen=True):
    """One line: a number that changed at virtual time `t` (seconds)."""

    name: str
    t: float
    value: float
    type: str = "gauge"
    run: str = ""
    labels: dict[str, str] = {}


@define
class Series:
    """One number over virtual time: the times at which it changed, and to what."""

    name: str
    type: str
    labels: Mapping[str, str]
    points: list[tuple[float, float]] = Factory(list)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.name,
            "type": self.type,
            "labels": dict(self.labels),
            "points": [list(each) for each in self.points],
        }


def beside(log: Path) -> Path:
    """The numbers of the run with this log. Raises UsageError if the run left none."""
    path = log.parent / NAME
    if not path.is_file():
        raise UsageError(f"{path}: no such file; a run with --out DIR --metrics writes one")
    return path


def read(path: Path, name: str = "", labels: Mapping[str, str] | None = None) -> list[Series]:
    """The numbers with this name (`*` stands for anything) and these labels, by name. Raises UsageError."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Series] = {}
    wanted = (labels or {}).items()
    for each in _lines(path):
        if name and not fnmatchcase(each.name, name):
            continue
        if not wanted <= each.labels.items():
            continue
        key = each.name, tuple(sorted(each.labels.items()))
        series = found.get(key)
        if series is None:
            series = found[key] = Series(each.name, each.type, each.labels)
        series.points.append((each.t, each.value))
    return [series for _, series in sorted(found.items(), key=lambda item: item[0])]


def _lines(path: Path) -> Iterator[Number]:
    decode = msgspec.json.Decoder(Number).decode
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield decode(line)
                except DAMAGED as error:
                    raise UsageError(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def sparkline(points: Sequence[tuple[float, float]], end: float, width: int) -> str:
    """Return the values over time as a row of bars, scaled to their maximum; 0 is a blank."""
    if not points or width < 1:
        return ""
    span = end or 1.0
    highest = max(value for _, value in points)
    bars: list[str] = []
    at, value = 0, 0.0
    for number in range(width):
        until = span * (number + 1) / width
        peak = value
        while at < len(points) and (points[at][0] < until or number == width - 1):
            value = points[at][1]
            peak = max(peak, value)
            at += 1
        level = 0 if highest <= 0 else round(peak / highest * (len(_BARS) - 1))
        bars.append(_BARS[level] if peak > 0 else " ")
    return "".join(bars)


def schema() -> dict[str, Any]:
    """The JSON Schema of one line of `metrics.jsonl`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of {NAME}, version {VERSION}: a number that changed",
        "type": "object",
        "required": ["labels", "name", "run", "t", "type", "value"],
        "additionalProperties": False,
        "properties": {
            "name": {
                "type": "string",
                "description": "upstream's name, of a histogram with _bucket, _sum or _count",
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "type": {"enum": ["counter", "gauge"]},
            "t": {
                "type": "number",
                "minimum": 0,
                "description": "virtual seconds since the run began",
            },
            "value": {"type": "number"},
            "run": {"type": "string", "description": "as in log.jsonl"},
        },
    }
