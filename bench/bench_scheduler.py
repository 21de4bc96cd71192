"""Upstream's scheduler benchmark files, the whole path. Needs their folder (environment variable SCHEDULER_PERF)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Row

MAIN = "from controlplane.cli.main import main; main()"
WORKLOADS = (
    ("misc", "SchedulingBasic/5000Nodes_10000Pods_QueueingHintsEnabled"),
    ("misc", "Unschedulable/5kNodes/100Init/10kPods_QueueingHintsEnabled"),
    ("affinity", "SchedulingNodeAffinity/5000Nodes_10000Pods_QueueingHintsEnabled"),
    ("affinity", "SchedulingPodAffinity/5000Nodes_5000Pods_QueueingHintsEnabled"),
    ("affinity", "SchedulingPodAntiAffinity/5000Nodes_2000Pods_QueueingHintsEnabled"),
    ("topology_spreading", "TopologySpreading/5000Nodes_5000Pods_QueueingHintsEnabled"),
)


def rows(repeat: int) -> Iterator[Row]:
    folder = Path(os.environ.get("SCHEDULER_PERF", "../shared/inputs/scheduler_perf"))
    if not folder.is_dir():
        print(
            f"  (scheduler_perf left out: no folder {folder}; set SCHEDULER_PERF)", file=sys.stderr
        )
        return
    for part, name in WORKLOADS:
        command = [
            *(sys.executable, "-c", MAIN, "bench", "scheduler-perf"),
            str(folder / part / "performance-config.yaml"),
            *("--filter", f"^{name}$", "--format", "json"),
        ]
        values = []
        for _ in range(min(repeat, 3)):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            items = json.loads(done.stdout)["dataItems"]
            found = [i for i in items if i["labels"]["Metric"] == "SchedulingThroughput"]
            values.append(found[0]["data"]["Average"])
        yield Row(name, "pods/s", tuple(values))
