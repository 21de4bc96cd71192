"""How the cost of a pod, and memory, grow with the cluster: the whole path from creation to bound and observed."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench.harness import Row

SIZES = (100, 500, 1000, 2500, 5000, 10_000, 15_000)
PODS = 2000
FEW = 100
KIB = 1024
CONFIG = """
- name: Scaling
  workloadTemplate:
  - opcode: createNodes
    count: {nodes}
  - opcode: createPods
    count: 100
  - opcode: createPods
    count: {pods}
    collectMetrics: true
  workloads:
  - name: all
    params: {{}}
"""


def rows(repeat: int) -> Iterator[Row]:
    small = _run(FEW, FEW)
    for nodes in SIZES:
        found = [_run(nodes, PODS) for _ in range(min(repeat, 3))]
        costs = tuple(1e6 / each["rate"] for each in found)
        yield Row(f"a pod at {nodes:,} nodes", "us", costs)
        few = _run(nodes, FEW)
        if nodes > FEW:
            grown = (few["peak"] - small["peak"]) / (nodes - FEW) / KIB
            yield Row(f"  memory of a node, of {nodes:,}", "KiB", (grown,))
        grown = (found[0]["peak"] - few["peak"]) / (PODS - FEW) / KIB
        yield Row(f"  memory of a pod at {nodes:,} nodes", "KiB", (grown,))


def _run(nodes: int, pods: int) -> dict[str, float]:
    """In a process of its own, so that its peak of memory is that of this run."""
    command = [sys.executable, "-m", "bench.bench_scaling", str(nodes), str(pods)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measure(nodes: int, pods: int) -> dict[str, float]:
    from actors import collector
    from controlplane.perf import runner, workloads

    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "performance-config.yaml"
        config.write_text(CONFIG.format(nodes=nodes, pods=pods))
        (workload,) = workloads.load(config)
        collector.rest()
        outcome = runner.run(workload)
    data = outcome.collections[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
    return {"rate": pods / (data.stopped - data.started), "peak": peak}


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]), int(sys.argv[2]))))
