"""Results as upstream's JSON items, as rows of a table, and the figures of the real control plane beside them."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from controlplane.api.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from controlplane.perf.measuring import Collection
    from controlplane.perf.runner import WorkloadResult
    from controlplane.perf.workloads import Workload

HINTS_SUFFIX = "_QueueingHintsEnabled"
COLUMNS = ("WORKLOAD", "PODS", "SECONDS", "AVERAGE", "P50", "P90", "P95", "P99", "STORED", "TIMES")
NUMBERS = COLUMNS[1:]
LATENCY_COLUMNS = ("METRIC", "RESULT", "COUNT", "AVERAGE", "P50", "P90", "P95", "P99")


@cache
def _reference() -> dict[str, dict[str, float]]:
    text = files("controlplane.perf").joinpath("reference.json").read_text(encoding="utf-8")
    workloads: dict[str, dict[str, float]] = json.loads(text)["workloads"]
    return workloads


def reference(workload: Workload) -> dict[str, float] | None:
    """The throughput of the real control plane (pods/s: average, median, p99); None if not measured.

    The figures were taken with queueing hints on; the variant of a workload without hints has the
    same name without the suffix.
    """
    known = _reference()
    name = workload.full_name
    return known.get(name) or known.get(name.removesuffix(HINTS_SUFFIX))


def items(results: Sequence[WorkloadResult]) -> Tree:
    """The data items of all workloads in upstream's form (`BenchmarkPerfScheduling` files)."""
    return {
        "version": "v1",
        "dataItems": [
            item
            for result in results
            for collection in result.collections
            for item in _items(result, collection)
        ],
    }


def _items(result: WorkloadResult, collection: Collection) -> Iterator[Tree]:
    name = f"{result.workload.full_name}/{collection.name}"
    found = collection.throughput()
    data = {"Average": found.average}
    data.update({f"Perc{percent}": value for percent, value in found.percentiles.items()})
    labels = {"Metric": "SchedulingThroughput", "Name": name}
    yield {"data": data, "unit": "pods/s", "labels": labels}
    for (metric, outcome), histogram in sorted(collection.histograms.items()):
        labels = {"Metric": metric, "Name": name}
        if outcome:
            labels["result"] = outcome
        yield {"data": histogram.to_json(), "unit": "ms", "labels": labels}


def to_json(results: Sequence[WorkloadResult]) -> Tree:
    """The items, and per workload what else there is to know: wall time, reference, failure."""
    workloads = []
    for result in results:
        entry: Tree = {
            "name": result.workload.full_name,
            "wall_s": round(result.wall_s, 3),
            "virtual_s": round(result.virtual_s, 3),
            "steps": result.steps,
        }
        if result.failed:
            entry["failed"] = result.failed
        known = reference(result.workload)
        if known is not None:
            entry["stored"] = known
        if result.workload.threshold is not None:
            entry["threshold"] = result.workload.threshold
        workloads.append(entry)
    return {**items(results), "workloads": workloads}


def rows(results: Sequence[WorkloadResult]) -> list[tuple[object, ...]]:
    """One row per measurement (COLUMNS); workloads without one have none."""
    out: list[tuple[object, ...]] = []
    for result in results:
        known = reference(result.workload)
        for collection in result.collections:
            found = collection.throughput()
            if not found.pods:
                continue
            real = "" if known is None else f"{known['average']:.0f}"
            times = "" if known is None else f"{found.average / known['average']:.1f}"
            out.append(
                (
                    result.workload.full_name,
                    found.pods,
                    f"{found.seconds:.2f}",
                    f"{found.average:.0f}",
                    *(f"{value:.0f}" for value in found.percentiles.values()),
                    real,
                    times,
                )
            )
    return out


def latency_rows(result: WorkloadResult) -> list[tuple[object, ...]]:
    """The histograms of one workload, in milliseconds (LATENCY_COLUMNS)."""
    out: list[tuple[object, ...]] = []
    for collection in result.collections:
        for (metric, outcome), histogram in sorted(collection.histograms.items()):
            values = (f"{value:.2f}" for value in histogram.to_json().values())
            out.append((metric, outcome, histogram.count, *values))
    return out
