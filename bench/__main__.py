"""Runs benchmarks, prints a table, writes JSON to bench/results/latest.json."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path

from bench import (
    bench_apiserver,
    bench_cli,
    bench_cluster,
    bench_controllers,
    bench_kubelet,
    bench_list_memory,
    bench_logs,
    bench_nodes,
    bench_page,
    bench_pages,
    bench_race,
    bench_run,
    bench_runtime,
    bench_scaling,
    bench_scheduler,
    bench_schedules,
    bench_serve,
    bench_snapshots,
    bench_store,
)
from bench.harness import Row

SUITES = {
    "runtime": bench_runtime.rows,
    "apiserver": bench_apiserver.rows,
    "race": bench_race.rows,
    "run": bench_run.rows,
    "scaling": bench_scaling.rows,
    "schedules": bench_schedules.rows,
    "scheduler": bench_scheduler.rows,
    "cli": bench_cli.rows,
    "cluster": bench_cluster.rows,
    "kubelet": bench_kubelet.rows,
    "controllers": bench_controllers.rows,
    "snapshots": bench_snapshots.rows,
    "nodes": bench_nodes.rows,
    "serve": bench_serve.rows,
    "memory": bench_list_memory.rows,
    "store": bench_store.rows,
    "logs": bench_logs.rows,
    "page": bench_page.rows,
    "pages": bench_pages.rows,
}
RESULTS = Path(__file__).parent / "results" / "latest.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help=f"which suites: {', '.join(SUITES)} (all by default)"
    )
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs of each figure; the median is reported"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in SUITES]
    if unknown:
        parser.error(f"no suite {unknown[0]!r}; known: {', '.join(SUITES)}")
    rows: list[Row] = []
    print(f"{'benchmark':<52} {'median':>12} {'min':>12} {'max':>12}  unit")
    for name in arguments.names or SUITES:
        for row in SUITES[name](arguments.repeat):
            rows.append(row)
            print(
                f"{row.name:<52} {row.median:>12,.6g} {row.low:>12,.6g} {row.high:>12,.6g}  {row.unit}",
                flush=True,
            )
    RESULTS.parent.mkdir(exist_ok=True)
    host = {"python": platform.python_version(), "machine": platform.machine()}
    RESULTS.write_text(
        json.dumps({"host": host, "rows": [row.to_json() for row in rows]}, indent=2) + "\n"
    )
    print(f"written to {RESULTS}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
