"""Upstream's scheduler benchmark files, the whole path, beside the real control plane's figures.

Needs the folder of those files (test/integration/scheduler_perf of Kubernetes) in the environment
variable SCHEDULER_PERF.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from bench.harness import Row

MAIN = "from controlplane.cli.main import main; main()"
PARTS = ("misc", "affinity", "topology_spreading")


def rows(repeat: int) -> Iterator[Row]:
    folder = Path(os.environ.get("SCHEDULER_PERF", ""))
    if not (folder / PARTS[0]).is_dir():
        print("  (scheduler left out: SCHEDULER_PERF names no such folder)", file=sys.stderr)
        return
    text = files("controlplane.perf").joinpath("reference.json").read_text(encoding="utf-8")
    for name, real in json.loads(text)["workloads"].items():
        config = _config_of(folder, name.split("/")[0])
        command = [
            *(sys.executable, "-c", MAIN, "bench", "scheduler-perf", str(config)),
            *("--filter", f"^{name}$", "--format", "json"),
        ]
        values = []
        for _ in range(min(repeat, 3)):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            items = json.loads(done.stdout)["dataItems"]
            found = [i for i in items if i["labels"]["Metric"] == "SchedulingThroughput"]
            values.append(found[0]["data"]["Average"])
        yield Row(name, "pods/s", tuple(values))
        times = tuple(value / real["average"] for value in values)
        yield Row("  times the real control plane", "x", times)


def _config_of(folder: Path, case: str) -> Path:
    for part in PARTS:
        config = folder / part / "performance-config.yaml"
        if re.search(rf"^- name: {case}$", config.read_text(encoding="utf-8"), re.MULTILINE):
            return config
    raise LookupError(f"no workload {case} in {folder}")
