"""The same suites on this tree and on another one, in turns: what the machine does meanwhile meets both.

    git worktree add /tmp/then COMMIT && python -m bench.paired /tmp/then apiserver serve --rounds 3

Each tree runs its own benchmarks; figures that both have are compared by name, round by round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[1]
Figures = dict[str, tuple[str, float]]


def figures(tree: Path, suites: list[str]) -> Figures:
    """One run of the suites of a tree: unit and value by name."""
    subprocess.run(
        [sys.executable, "-m", "bench", "--repeat", "1", *suites],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    told = json.loads((tree / "bench" / "results" / "latest.json").read_text())
    rows = told["rows"] if isinstance(told, dict) else told
    return {row["name"]: (row["unit"], statistics.median(row["values"])) for row in rows}


def table(rounds: list[tuple[Figures, Figures]]) -> list[str]:
    """A line per figure: medians then and now, and the median of what they are to each other."""
    lines = [f"{'figure':<66} {'unit':<12} {'then':>10} {'now':>10} {'now/then':>9}"]
    for name, (unit, _) in rounds[0][1].items():
        pairs = [(then[name][1], now[name][1]) for then, now in rounds if name in then]
        if not pairs:
            continue
        then, now = (statistics.median(values) for values in zip(*pairs, strict=True))
        ratios = [b / a for a, b in pairs if a]
        shown = f"{statistics.median(ratios):9.2f}" if ratios else " " * 9
        lines.append(f"{name[:66]:<66} {unit:<12} {then:10,.1f} {now:10,.1f} {shown}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.paired", description=__doc__)
    parser.add_argument("other", type=Path, help="the root of the other tree")
    parser.add_argument("suites", nargs="+", help="which suites")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rounds = []
    for number in range(arguments.rounds):
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
        then = figures(arguments.other.resolve(), arguments.suites)
        rounds.append((then, figures(HERE, arguments.suites)))
    print("\n".join(table(rounds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
