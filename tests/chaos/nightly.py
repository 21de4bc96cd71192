"""Every campaign against trust and healing, one after the other, and a table of what came of them.

    python3 dev.py nightly [--scale 0.01] [--seed 0] [--only NAME ...]

At scale 1 that is 500 kills under load, a million fuzzed requests in process and a hundred thousand over HTTP,
all requests that are made to take long, ten thousand fault runs with one API server and as many with three, the tests
that are marked `nightly`, and an hour's soak. The suite runs small parts of the same campaigns. A campaign says
itself what failed and which command shows it again; exit status 1 if any did.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[2]


@frozen
class Campaign:
    """`words` is the command; `{n}` is how often, `{seed}` the first seed."""

    name: str
    what: str
    often: int
    words: str

    def command(self, scale: float, seed: int) -> list[str]:
        """What is run at a scale."""
        often = max(1, round(self.often * scale))
        told = self.words.format(n=often, seed=seed)
        return [sys.executable, "-m", *told.split()]


CAMPAIGNS = (
    Campaign("kills", "killed under load", 500, "tests.chaos.kills --kills {n} --seed {seed}"),
    Campaign(
        "requests",
        "requests of all sorts, in process",
        1_000_000,
        "tests.chaos.fuzz --requests {n} --seed {seed}",
    ),
    Campaign(
        "http",
        "requests of all sorts over HTTP",
        100_000,
        "tests.chaos.fuzz --requests {n} --seed {seed} --http",
    ),
    Campaign("hostile", "times all bodies that are made to take long", 1, "bench.bench_hostile"),
    Campaign("stalls", "longest stops of other clients", 1, "tests.chaos.stalls"),
    Campaign("healing", "fault runs", 10_000, "tests.chaos.healing --runs {n} --seed {seed}"),
    Campaign(
        "replicas",
        "fault runs with three API servers",
        10_000,
        "tests.chaos.healing --runs {n} --seed {seed} --replicas 3",
    ),
    Campaign("searches", "long searches that are to find nothing", 1, "pytest -m nightly -n auto"),
    Campaign("soak", "minutes of writing", 60, "bench.soak --minutes {n}"),
)


@frozen
class Outcome:
    """What came of a campaign: its exit status, what it said last, and how long it took."""

    campaign: Campaign
    often: int
    status: int
    last: str
    seconds: float


def run(campaign: Campaign, scale: float, seed: int) -> Outcome:
    """One campaign; what it prints is shown as it comes."""
    command = campaign.command(scale, seed)
    print(f"== {campaign.name}: {' '.join(command[1:])}", flush=True)
    began = time.monotonic()
    last = ""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    often = max(1, round(campaign.often * scale))
    return Outcome(campaign, often, process.returncode, last, time.monotonic() - began)


def table(outcomes: list[Outcome]) -> str:
    """The table, a line each."""
    lines = [f"{'CAMPAIGN':10} {'TIMES':>9} {'OF WHAT':34} {'RESULT':8} {'TIME':>9}  LAST WORD"]
    for each in outcomes:
        result = "held" if each.status == 0 else f"exit {each.status}"
        lines.append(
            f"{each.campaign.name:10} {each.often:>9} {each.campaign.what:34} {result:8}"
            f" {each.seconds:>7.0f} s  {each.last[:80]}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python3 dev.py nightly", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of all counts (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    names = [each.name for each in CAMPAIGNS]
    parser.add_argument(
        "--only",
        nargs="+",
        choices=names,
        default=names,
        metavar="NAME",
        help=f"of {', '.join(names)}",
    )
    options = parser.parse_args()
    if not options.scale > 0:
        parser.error("--scale: expected a positive number")
    wanted = [each for each in CAMPAIGNS if each.name in options.only]
    outcomes = [run(each, options.scale, options.seed) for each in wanted]
    print(f"\n{table(outcomes)}")
    return int(any(each.status for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
