"""Final counters of a snapshot controller after a conversation, and the conversation itself.

Kueue's file of the same name goes to `answer_kueue_metrics`.
"""

from __future__ import annotations

from typing import Any

from tests.golden import answer_kueue_metrics
from tests.golden.runner import difference
from tests.golden.snapshots_compare import RUNS, differs
from tests.golden.snapshots_shown import Shown
from tests.golden.snapshots_world import SnapshotWorld

Json = Any
TOTAL = "snapshot_controller_operation_total_seconds"
IN_FLIGHT = "snapshot_controller_operations_in_flight"


def answer(case: Json) -> Json:
    """The case; it is run as often as its comparison needs."""
    if "world" in case:
        return answer_kueue_metrics.answer(case)
    return case


def compare(want: Json, case: Json) -> str | None:
    """One of the runs agrees in the conversation and in every series."""
    if "driver" not in case:
        return answer_kueue_metrics.compare(want, case)
    first = None
    legal = want.get("metrics_variants") or [want["metrics"]]
    for pace, seed in RUNS:
        world = SnapshotWorld(case, pace, seed).run()
        found = differs(want, Shown(world))
        if found is None:
            shown = _series(world)
            reasons = [difference(_sorted(each), shown, "metrics") for each in legal]
            found = None if None in reasons else reasons[0]
        if found is None:
            return None
        first = first or found
    return first


def _series(world: SnapshotWorld) -> Json:
    metrics = world.controllers[-1].metrics
    shown: list[Json] = [{"name": IN_FLIGHT, "type": "gauge"}]
    shown.append({"labels": {}, "name": IN_FLIGHT, "value": float(metrics.in_flight)})
    if metrics.durations:
        shown.append({"name": TOTAL, "type": "histogram"})
    for series, durations in metrics.durations.items():
        entry = {"labels": series._asdict(), "name": f"{TOTAL}_count"}
        shown.append({**entry, "value": float(len(durations))})
    return _sorted(shown)


def _sorted(series: Json) -> Json:
    return sorted(
        series, key=lambda each: (each["name"], str(sorted(each.get("labels", {}).items())))
    )
