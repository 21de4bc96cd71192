"""Whatever faults a cluster, once it is over all is as if nothing had: a campaign.

    python -m tests.chaos.healing --runs 10000 --seed 0 [--replicas 3]

Every run is a workload, a schedule and up to four faults, all decided by its seed: some process crashes, or
is cut off, slowed, refused or told that what was done failed, at any moment; then that ends. Some time later
all objects have to be as in runs of the same workload without faults, apart from who, where and when. A run
that does not heal is told with the command that runs it again.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from attrs import field, frozen

from actors import EventLog, strategies
from controlplane.scenarios import Scenario
from controlplane.scenarios.engine.convergence import End, difference, unstable
from controlplane.scenarios.engine.convergence import Path as Where
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import Plan, plan_of
from controlplane.scenarios.engine.user import User
from tests.chaos import faults
from tests.chaos.settled import settled
from tests.chaos.workloads import WORKLOADS, PatientUser, Workload

CALM = (("fifo", 0), ("random-walk", 1), ("random-walk", 2), ("pct-actor", 3))
REST_S = 700
"""How long is waited after the last fault has ended: expectations last five minutes, so does a node's report."""
NODES = 2
MOST_STEPS = 40_000
"""After so many steps a run ends whose user waits for what never comes; others take a quarter of them."""
TELLS_EVERY = 500
PROPOSED = ("26120", "138036")
"""Upstream has not fixed them: dependents that the garbage collector hears of late go with an owner that orphans
them, and a rolling update that is scaled in its midst may hang."""


@frozen
class Verdict:
    """What came of one run. `reason` is "" where it healed."""

    workload: str
    seed: int
    replicas: int
    reason: str
    struck: tuple[str, ...] = field(repr=False)
    run: Execution = field(repr=False)

    @property
    def command(self) -> str:
        """What runs it again."""
        return (
            f"python -m tests.chaos.healing --workload {self.workload} --replicas {self.replicas}"
            f" --seed {self.seed} --runs 1"
        )


def scenario(workload: Workload, replicas: int, *, calm: bool) -> Scenario:
    """The workload, and unless it is to be calm what faults it; then rest."""
    end_s = workload.window_s + max(workload.lasts_s) + REST_S

    async def main(user: User) -> None:
        patient = PatientUser(user)
        await workload.main(patient)
        user.notes["done"] = True
        await patient.sleep(max(REST_S, end_s - user.ctx.now // 1_000_000_000))

    return Scenario(
        f"healing-{workload.name}",
        workload=main,
        build=workload.build(replicas),
        faults=() if calm else (faults.some(workload.window_s, workload.lasts_s),),
        defaults={"nodes": NODES, "fix": PROPOSED},
        step_limit=MOST_STEPS,
    )


@cache
def _plan(name: str, replicas: int, calm: bool) -> Plan:
    return plan_of(scenario(WORKLOADS[name], replicas, calm=calm))


def _end(run: Execution) -> End:
    """All objects, and what the drivers' disks hold."""
    cluster = run.cluster
    end = settled([obj for prefix in cluster.store.prefixes() for obj in cluster.objects(prefix)])
    for name, probe in cluster.csi_drivers.items():
        disk = probe.driver
        assert disk is not None
        end[f"disk of {name}"] = [
            {
                "volumes": len(disk.volumes),
                "snapshots": len(disk.snapshots),
                "groups": len(disk.groups),
            }
        ]
    return end


@cache
def expected(name: str, replicas: int) -> tuple[End, dict[str, frozenset[Where]]]:
    """How the workload ends when nothing fails, and in what such runs differ. Raises ValueError."""
    ends = []
    for strategy, seed in CALM:
        run = Execution(
            _plan(name, replicas, True), strategies.named(strategy, seed), log=EventLog(keep=False)
        )
        result = run.execute("bare")
        if not result.ok or "done" not in run.notes:
            raise ValueError(f"{name}: without faults it ends in {result.verdict}: {result.reason}")
        ends.append(_end(run))
    return ends[0], unstable(ends)


def attempt(name: str, seed: int, replicas: int = 1, *, keep: bool = False) -> Verdict:
    """One run."""
    end, masks = expected(name, replicas)
    strategy = strategies.named("random-walk", seed)
    run = Execution(_plan(name, replicas, False), strategy, log=EventLog(keep=keep))
    result = run.execute("bare")
    struck = tuple(run.notes.get("struck", ()))
    if not result.ok:
        reason = f"it ends in {result.verdict}: {result.reason}"
    elif "done" not in run.notes:
        reason = "its user never came to an end"
    else:
        reason = difference(_end(run), end, masks) or ""
    return Verdict(name, seed, replicas, reason, struck, run)


def campaign(
    runs: int, seed: int = 0, replicas: int = 1, workload: str = "", *, keep: bool = False
) -> Iterator[Verdict]:
    """So many runs; their workloads take turns."""
    names = [workload] if workload else list(WORKLOADS)
    for number in range(seed, seed + runs):
        yield attempt(names[number % len(names)], number, replicas, keep=keep)


def _table(counted: dict[str, Counter[str]]) -> Iterator[str]:
    yield f"{'workload':<14}{'runs':>7}{'strikes':>9}{'not healed':>12}"
    for name, numbers in counted.items():
        yield f"{name:<14}{numbers['runs']:>7}{numbers['strikes']:>9}{numbers['not healed']:>12}"


def main(arguments: list[str] | None = None) -> int:
    """Runs a campaign and prints its table; 0 all healed, 1 some did not, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.healing", description=main.__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first run (%(default)s)")
    parser.add_argument("--replicas", type=int, default=1, help="API servers (%(default)s)")
    parser.add_argument("--workload", choices=tuple(WORKLOADS), default="", help="only this one")
    parser.add_argument("--out", type=Path, help="leave log and recording of the last run here")
    options = parser.parse_args(arguments)
    if options.runs < 1 or options.replicas < 1:
        parser.error("--runs and --replicas: expected 1 or more")
    tell: Callable[[str], None] = lambda line: print(line, flush=True)  # noqa: E731
    counted: dict[str, Counter[str]] = {}
    kinds: Counter[str] = Counter()
    keep = options.out is not None
    failed = 0
    for verdict in campaign(
        options.runs, options.seed, options.replicas, options.workload, keep=keep
    ):
        numbers = counted.setdefault(verdict.workload, Counter())
        numbers["runs"] += 1
        numbers["strikes"] += len(verdict.struck)
        kinds.update(verdict.struck)
        if verdict.reason:
            failed += 1
            numbers["not healed"] += 1
            tell(
                f"not healed: {verdict.reason}\n  after {', '.join(verdict.struck) or 'nothing'}\n  {verdict.command}"
            )
        if keep:
            verdict.run.save(options.out)
        done = sum(each["runs"] for each in counted.values())
        if done % TELLS_EVERY == 0:
            tell(f"{done} runs, {failed} not healed")
    tell("\n".join(_table(counted)))
    tell("strikes: " + ", ".join(f"{name} {count}" for name, count in sorted(kinds.items())))
    tell(f"{options.runs} runs, {sum(kinds.values())} faults, {failed} not healed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
