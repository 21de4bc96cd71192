"""A search on several processes: batches of schedules, merged as if one process had run them in order.

A worker gets the plan as a recording's header tells it, so whatever can be replayed can be searched in
parallel. The finding with the lowest number counts, whichever batch ends first; it is run again here,
so that it is the same object as in a search of one process.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from actors import Exploration, Finding, Replay, strategies
from controlplane.scenarios import loading
from controlplane.scenarios.exploring import Campaign
from controlplane.scenarios.plan import plan_of_header

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor, Future

    from actors import ChoiceList
    from controlplane.scenarios.plan import Plan

BATCH = 48
"""Schedules in one piece of work: enough that every member of a portfolio has its turn several times."""
ONE_OBJECT = ("delay-bounded", "preemption-bounded", "dpor")
"""Strategies that enumerate: their runs cannot be dealt out."""


@frozen
class Piece:
    """What a worker is asked: schedules with the seeds `seed` and on. `number` is its place in the search."""

    header: dict[str, Any]
    strategy: str
    number: int
    seed: int
    schedules: int
    stop_at_first: bool
    check_every: int


@frozen
class Done:
    """What a worker saw. `findings` are (schedule within the piece, seed, choices)."""

    number: int
    schedules: int
    classes: tuple[str, ...]
    steps: int
    verdicts: dict[str, int]
    findings: tuple[tuple[int, int, ChoiceList], ...]
    reached: dict[str, int]


def can_be_dealt_out(plan: Plan, strategy: str) -> bool:
    """Whether other processes can run this search: they must find the scenario, and the strategy must allow it."""
    return plan.scenario.origin is not None and strategy not in ONE_OBJECT


def work(piece: Piece) -> Done:
    """Run a piece; called in a worker."""
    scenario = loading.recorded(piece.header["scenario"], Path())
    plan = plan_of_header(scenario, piece.header)
    seen = Campaign(plan, piece.strategy).explore(
        piece.schedules,
        seed=piece.seed,
        stop_at_first=piece.stop_at_first,
        check_every=piece.check_every,
    )
    found = tuple((each.schedule, each.seed, each.result.choices) for each in seen.findings)
    return Done(
        piece.number, seen.schedules, seen.classes, seen.steps, seen.verdicts, found, seen.reached
    )


def explore(
    plan: Plan,
    strategy: str,
    schedules: int,
    *,
    jobs: int,
    seed: int = 0,
    stop_at_first: bool = True,
    check_every: int = 0,
    progress: Callable[[int], None] | None = None,
    over: Callable[[], bool] | None = None,
    executor: Executor | None = None,
) -> Exploration:
    """`Campaign.explore` on `jobs` processes, or on an executor of the caller's (a Dask client's, say)."""
    search = _Search(plan, strategy, schedules, jobs, seed, stop_at_first, check_every)
    if executor is not None:
        return search.run(executor, progress, over)
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        return search.run(pool, progress, over)


@frozen
class _Search:
    """What is searched, and how."""

    plan: Plan
    strategy: str
    schedules: int
    jobs: int
    seed: int
    stop_at_first: bool
    check_every: int

    def piece(self, number: int) -> Piece | None:
        """The piece of that number; None beyond the last."""
        begin = number * BATCH
        if begin >= self.schedules:
            return None
        size = min(BATCH, self.schedules - begin)
        return Piece(
            self.plan.header(), self.strategy, number, self.seed + begin, size, self.stop_at_first,
            self.check_every,
        )  # fmt: skip

    def run(
        self,
        pool: Executor,
        progress: Callable[[int], None] | None,
        over: Callable[[], bool] | None,
    ) -> Exploration:
        """Hand pieces out, two for each process, until nothing more is to be asked."""
        numbers = count()
        done: dict[int, Done] = {}
        running: set[Future[Done]] = set()
        last = -1  # the first piece with a finding, where one is enough
        more = True
        while True:
            while more and len(running) < 2 * self.jobs and last < 0:
                asked = None if over is not None and over() else self.piece(next(numbers))
                more = asked is not None
                if asked is not None:
                    running.add(pool.submit(work, asked))
            if not running:
                return _merged(self.plan, done, last if last >= 0 else max(done, default=-1))
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                piece = future.result()
                done[piece.number] = piece
                if piece.findings and self.stop_at_first:
                    last = piece.number if last < 0 else min(last, piece.number)
            if progress is not None:
                progress(sum(each.schedules for each in done.values()))


def _merged(plan: Plan, done: dict[int, Done], last: int) -> Exploration:
    """The pieces up to the last one that counts, in order."""
    classes: dict[str, None] = {}
    verdicts: dict[str, int] = {}
    reached: dict[str, int] = {}
    findings: list[Finding] = []
    schedules = steps = 0
    for number in sorted(each for each in done if each <= last):
        piece = done[number]
        for schedule, seed, choices in piece.findings:
            findings.append(_again(plan, schedules + schedule, seed, choices))
        schedules += piece.schedules
        steps += piece.steps
        classes.update(dict.fromkeys(piece.classes))
        for counts, more in ((verdicts, piece.verdicts), (reached, piece.reached)):
            for name, times in more.items():
                counts[name] = counts.get(name, 0) + times
    return Exploration(schedules, steps, verdicts, tuple(findings), tuple(classes), reached=reached)


def _again(plan: Plan, schedule: int, seed: int, choices: ChoiceList) -> Finding:
    """The finding of another process, run here."""
    strategy = Replay(choices)
    world = Campaign(plan, strategies.NAMES[0]).world(strategy)
    result = world.run("bare", until_ns=plan.until_ns)
    return Finding(schedule, seed, result, world)
