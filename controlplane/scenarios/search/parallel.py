"""A search in pieces, on this process or several, summed as if one process had run them in order.

A worker gets the plan as it stands in a recording's header, so whatever can be replayed can be searched in
parallel. A search that ends with its first finding ends with the one of the lowest number, whichever
piece is done first.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from attrs import frozen

from actors import collector, strategies
from controlplane.scenarios.engine.common_options import PLANS
from controlplane.scenarios.engine.plan import plan_of_header
from controlplane.scenarios.search import loading
from controlplane.scenarios.search.exploring import Campaign, first_seed
from controlplane.scenarios.search.tally import Seen, Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.context import BaseContext

    from controlplane.scenarios.engine.plan import Plan, Settings

PORTFOLIO = "portfolio"
PATIENCE = 100
"""How often the search is found to be over before the schedules that still run are abandoned."""
BATCH = 48
"""Schedules in one piece: enough that every member of a portfolio has its turn several times."""
VARIED_BATCH = 4
"""The same where pieces differ in the values of options: all values are to have a turn soon."""
LOOK_EVERY_S = 0.5
"""The interval at which an idle search checks for an interruption."""


@frozen
class Piece:
    """The task of a worker: schedules with the seeds from `seed` on. `number` is its place in the search."""

    header: dict[str, Any]
    strategy: str
    number: int
    seed: int
    schedules: int
    stop_at_first: bool
    check_every: int
    settings: Settings = ()


@frozen
class Done:
    """A piece, and what its schedules showed."""

    number: int
    seen: Seen
    whole: bool = True


class _Cut:
    """In a worker: whether the search is to end with the schedule that is being run."""

    told: Any = None
    """One byte that all processes of a search share."""

    @classmethod
    def short(cls) -> bool:
        """Return whether an interruption was requested."""
        return cls.told is not None and cls.told.value != 0


def begin_worker(told: Any) -> None:
    """Begin a process of a search, which shares `told`, one byte: not 0 is a request to end.

    Ctrl-C reaches every process: the first is left to the one that searches, the second ends this one, too.
    A worker ends with the process that searches, however that one ended: a killed one takes no leave.
    """
    _Cut.told = told
    Thread(target=_end_with_parent, name="end-with-parent", daemon=True).start()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def once(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, once)
    collector.rest()  # all that it does is run schedules


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        signal.raise_signal(signal.SIGKILL)


def cut_short() -> bool:
    """Return, in a worker, whether the search is to end."""
    return _Cut.short()


def enumerates(strategy: str) -> bool:
    """Return whether a strategy goes through all schedules in an order of its own: such a search is one piece."""
    return strategy in strategies.ENUMERATING


def can_be_dealt_out(plan: Plan, strategy: str) -> bool:
    """Return whether other processes can run this search: they must find the scenario, and the strategy must allow
    it.
    """
    return plan.scenario.origin is not None and not enumerates(strategy)


def work(piece: Piece) -> Done:
    """Run a piece; called in a worker."""
    return _run(_plan_of(json.dumps(piece.header)), piece, _Cut.short)


@lru_cache(maxsize=1)
def _plan_of(header: str) -> Plan:
    """The plan that a header tells of: one for all pieces of a search, which share what is found out about it once."""
    told = json.loads(header)
    return plan_of_header(loading.recorded(told["scenario"], Path()), told)


def _run(plan: Plan, piece: Piece, over: Callable[[], bool]) -> Done:
    campaign = Campaign(plan.under(piece.settings), piece.strategy)
    found = campaign.explore(
        piece.schedules,
        seed=piece.seed,
        stop_at_first=piece.stop_at_first,
        check_every=piece.check_every,
        over=over,
    )
    ended = piece.stop_at_first and bool(found.findings)
    whole = ended or found.exhausted or found.schedules == piece.schedules
    return Done(piece.number, Seen.of(found, campaign.lines_of, piece.settings), whole)


class _Here(Executor):
    """Does what it is asked at once, in this process."""

    def __init__(self, plan: Plan, over: Callable[[], bool]) -> None:
        self._plan = plan
        self._over = over

    def submit(self, _work: Any, piece: Piece, /) -> Future[Done]:  # type: ignore[override]
        """Run a piece."""
        future: Future[Done] = Future()
        future.set_result(_run(self._plan, piece, self._over))
        return future


@frozen
class Limits:
    """What ends a search.

    Args:
        schedules: at most this number of them.
        failures: this number of different failures, besides those of an earlier search; None: no number.
        over: asked whether to end, after the piece that is running.
        cut_short: asked whether to end after the schedules that are running; the pieces that they belong to count.
    """

    schedules: int
    failures: int | None = 1
    over: Callable[[], bool] | None = None
    cut_short: Callable[[], bool] = bool  # False


@frozen
class Earlier:
    """An earlier part of a search, which is continued: the number of its pieces, and their sum."""

    pieces: int
    tally: Tally


def explore(
    plan: Plan,
    strategy: str,
    limits: Limits,
    *,
    jobs: int,
    seed: int = 0,
    check_every: int = 0,
    earlier: Earlier | None = None,
    heard: Callable[[Tally, Seen], None] | None = None,
    executor: Executor | None = None,
) -> Tally:
    """Run schedules on `jobs` processes, or on the caller's executor (a Dask client's, for example).

    `heard` is called with the sum after each piece, in their order; not for pieces that are cut short.
    One schedule in `check_every` is run twice, to see that it is deterministic (0: none).
    """
    first = earlier is None and limits.failures == 1
    begin, tally = (0, Tally()) if earlier is None else (earlier.pieces, earlier.tally)
    pieces = _Pieces(
        plan, strategy, first_seed(seed, strategy), begin, limits.schedules, first, check_every
    )
    search = _Search(pieces, limits, tally, heard or (lambda _tally, _seen: None))
    if executor is not None:
        return search.run(executor, jobs)
    if jobs == 1:
        with collector.frozen():
            return search.run(_Here(plan, search.is_to_end), 1)
    context = start_context()
    search.told = context.RawValue("b", 0)
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=begin_worker, initargs=(search.told,)
    ) as pool:
        return search.run(pool, jobs)


def start_context() -> BaseContext:
    """The start method of worker processes: fork, which is quick, or spawn if other threads run.

    A forked child that inherits a lock which another thread held waits for it for ever.
    """
    alone = len(sys._current_frames()) == 1
    method = "fork" if alone and "fork" in multiprocessing.get_all_start_methods() else "spawn"
    return multiprocessing.get_context(method)


@frozen
class _Pieces:
    """The pieces into which a search is cut."""

    plan: Plan
    strategy: str
    seed: int
    begin: int
    schedules: int
    stop_at_first: bool
    check_every: int

    def piece(self, number: int) -> Piece | None:
        """The piece of that number; None beyond the last.

        Every second one of a portfolio goes through plans. What is left to the search (`Option.varied`) has its
        next value in each piece, so that all values have had their turn before the first has its second.
        """
        variants = self.plan.variants()
        batch = BATCH if len(variants) == 1 else VARIED_BATCH
        tried = (number - self.begin) * batch
        if tried >= self.schedules:
            return None
        size = min(batch, self.schedules - tried)
        strategy, first, at = self.strategy, self.seed, number
        if strategy == PORTFOLIO:
            at = number // 2
            if number % 2 == 0:
                strategy, first = PLANS, first_seed(self.plan["seed"], PLANS)
        at, variant = divmod(at, len(variants))
        return Piece(
            self.plan.header(),
            strategy,
            number,
            first + at * batch,
            size,
            self.stop_at_first,
            self.check_every,
            variants[variant],
        )


class _Search:
    """Pieces handed out, two for each process, and summed in order."""

    def __init__(
        self,
        pieces: _Pieces,
        limits: Limits,
        tally: Tally,
        heard: Callable[[Tally, Seen], None],
    ) -> None:
        self._pieces = pieces
        self._tally = tally
        self._heard = heard
        self._over = limits.over
        self._cut_short = limits.cut_short
        self._patience = PATIENCE
        self.told: Any = None
        self._enough = None if limits.failures is None else tally.failures + limits.failures
        self._next = pieces.begin
        self._waiting: dict[int, Seen] = {}
        self._partly: dict[int, Seen] = {}
        self._summed = pieces.begin

    def is_to_end(self) -> bool:
        """Return whether the schedule that is being run is to be abandoned.

        When the time is up, pieces that were begun may end, unless that takes so long that a schedule goes on for ever.
        """
        if self._cut_short():
            return True
        if self._time_is_up():
            self._patience -= 1
        return self._patience < 0

    def run(self, pool: Executor, jobs: int) -> Tally:
        """Until nothing more is to be asked."""
        running: set[Future[Done]] = set()
        while True:
            while len(running) < (2 * jobs if jobs > 1 else 1):
                asked = self._ask()
                if asked is None:
                    break
                running |= self._submitted(pool, asked)
            if not running:
                if self._partly:
                    self._sum_the_rest()
                return self._tally
            finished, running = wait(running, LOOK_EVERY_S, return_when=FIRST_COMPLETED)
            if self.told is not None and self.is_to_end():
                self.told.value = 1
            for future in finished:
                done = self._result(future)
                if done is None:
                    continue
                (self._waiting if done.whole else self._partly)[done.number] = done.seen
            self._sum()

    def _submitted(self, pool: Executor, asked: Piece) -> set[Future[Done]]:
        try:
            return {pool.submit(work, asked)}
        except BrokenProcessPool:
            if self._cut_short():
                return set()
            raise

    def _result(self, future: Future[Done]) -> Done | None:
        """Return what a worker found; None if the signal that ends the search has ended the worker."""
        try:
            return future.result()
        except BrokenProcessPool:
            if self._cut_short():
                return None
            raise

    def _ask(self) -> Piece | None:
        if self._is_enough() or self._time_is_up():
            return None
        if self._pieces.stop_at_first and any(seen.failing for seen in self._waiting.values()):
            return None
        asked = self._pieces.piece(self._next)
        if asked is not None:
            self._next += 1
        return asked

    def _time_is_up(self) -> bool:
        return self._over is not None and self._over()

    def _is_enough(self) -> bool:
        return self._enough is not None and self._tally.failures >= self._enough

    def _sum(self) -> None:
        while self._summed in self._waiting and not self._is_enough():
            seen = self._waiting.pop(self._summed)
            self._summed += 1
            self._tally.add(seen)
            self._heard(self._tally, seen)

    def _sum_the_rest(self) -> None:
        """The results of the pieces that were cut short, and of those after them."""
        for _, seen in sorted({**self._waiting, **self._partly}.items()):
            self._tally.add(seen)
