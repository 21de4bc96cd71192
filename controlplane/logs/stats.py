"""Durations in virtual time, and the counts of refusals by component."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import Factory, define

from controlplane.logs.pod_lifetimes import PodLifetimes
from controlplane.logs.reading import Line

PERCENTILES = (50, 90, 99)


@define
class Stats:
    """Latencies in virtual seconds by name, refusals of nodes by plugin, attempts by pod."""

    latencies: dict[str, list[float]] = Factory(dict)
    refused: Counter[str] = Factory(Counter)
    attempts: Counter[int] = Factory(Counter)

    def rows(self) -> list[tuple[str, int, list[float]]]:
        """Name, count, and the percentiles with the greatest last."""
        return [
            (name, len(values), [*(percentile(values, p) for p in PERCENTILES), max(values)])
            for name, values in self.latencies.items()
            if values
        ]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        names = [*(f"p{p}" for p in PERCENTILES), "max"]
        return {
            "latencies": {
                name: {"count": count, **dict(zip(names, values, strict=True))}
                for name, count, values in self.rows()
            },
            "refused_nodes_by_plugin": dict(self.refused.most_common()),
            "attempts": {str(count): pods for count, pods in sorted(self.attempts.items())},
        }


def percentile(values: Sequence[float], p: int) -> float:
    """The nearest-rank percentile of at least one value."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)]


def measure(lines: Iterable[Line]) -> Stats:
    """Measure a log, once."""
    lives = PodLifetimes()
    stats = Stats()
    requests: dict[str, list[float]] = defaultdict(list)
    tried: Counter[str] = Counter()
    for line in lines:
        event = line.event
        if event in ("apiserver.write", "apiserver.removed", "scheduler.popped"):
            lives.add(line)
        elif event == "informer.told":
            if line.data.get("kind") == "delete":
                lives.add(line)
        elif event == "apiserver.audited":
            requests[line.data.get("verb", "")].append(line.t - line.data.get("began_ns", 0) / 1e9)
        elif event in ("scheduler.failed", "scheduler.assumed"):
            tried[line.uid or line.obj] += 1
            for each in line.data.get("refused") or ():
                stats.refused[each["plugin"]] += each["count"]
    spans = {
        "pod: create to popped": ("created", "popped"),
        "pod: create to bound": ("created", "bound"),
        "pod: bound to running": ("bound", "running"),
        "pod: bound to ready": ("bound", "ready"),
        "pod: create to ready": ("created", "ready"),
        "pod: deletion to gone": ("terminating", "gone"),
    }
    for name, (start, end) in spans.items():
        stats.latencies[name] = [
            getattr(life, end) - getattr(life, start)
            for life in lives.all
            if getattr(life, start) is not None and getattr(life, end) is not None
        ]
    for verb in sorted(requests):
        stats.latencies[f"request: {verb}"] = [round(each, 9) for each in requests[verb]]
    stats.attempts = Counter(tried.values())
    return stats
