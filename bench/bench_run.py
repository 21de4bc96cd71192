"""The openb trace, all at once: 1,523 nodes, 8,152 pods. Needs the trace's folder (environment variable OPENB)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Row

PROGRAM = """
import json, resource, sys, time
from actors import collector
from controlplane.scenarios.manifest_run import SCENARIO
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of
from actors import EventLog
started = time.perf_counter()
collector.rest()
run = Execution(plan_of(SCENARIO, files=sys.argv[2:], all_at_once=True), log=EventLog(keep=False))
prepared = time.perf_counter()
run.execute(sys.argv[1])
summary = summary_of(run)
wall, processor = time.perf_counter() - started, time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"wall": wall, "processor": processor, "prepare": prepared - started, "peak_mib": peak,
                  "steps": summary.steps, "pods": len(summary.pods), "phases": summary.phases()}))
"""
FILES = ("openb_node_list_all_node.csv", "openb_pod_list_default.csv")


def rows(repeat: int) -> Iterator[Row]:
    folder = Path(os.environ.get("OPENB", "../shared/inputs/openb"))
    files = [folder / name for name in FILES]
    if not all(path.exists() for path in files):
        print(f"  (openb left out: {folder} does not hold the trace; set OPENB)", file=sys.stderr)
        return
    for driver in ("trio", "bare"):
        runs = []
        for _ in range(min(repeat, 3)):
            command = [sys.executable, "-c", PROGRAM, driver, *map(str, files)]
            runs.append(
                json.loads(
                    subprocess.run(command, check=True, capture_output=True, text=True).stdout
                )
            )
        title = f"openb all at once, {driver}"
        yield Row(f"{title}: wall", "s", tuple(run["wall"] for run in runs))
        yield Row(f"{title}: processor", "s", tuple(run["processor"] for run in runs))
        yield Row(
            f"{title}: of which reading and checking", "s", tuple(run["prepare"] for run in runs)
        )
        yield Row(f"{title}: peak memory", "MiB", tuple(run["peak_mib"] for run in runs))
        yield Row(f"{title}: pods", "pods/s", tuple(run["pods"] / run["wall"] for run in runs))
        yield Row(f"{title}: steps", "steps/s", tuple(run["steps"] / run["wall"] for run in runs))
