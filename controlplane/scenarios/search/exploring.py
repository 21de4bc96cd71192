"""Many executions of a plan under many schedules, until something breaks."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from attrs import frozen

from actors import EventLog, Replay, explore, strategies
from actors.strategies.branching import Branching
from actors.strategies.fair_tail import FairTail
from controlplane.errors import UsageError
from controlplane.scenarios.engine.common_options import PLANS
from controlplane.scenarios.engine.execution import Execution, recording_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import ChoiceList, Exploration, Finding, Recording, Strategy, World
    from actors.branching import Branches
    from actors.log import Marks
    from actors.world import Driver
    from controlplane.scenarios.engine.plan import Plan

RANDOM = "random-walk"
FAIR_AFTER = 50_000
"""The step of a searched schedule from which on it is fair, unless --fair-after says otherwise.

An unfair schedule may go on for ever while time moves: a task that retries every few seconds keeps the one starved
that would let it succeed.
"""


def first_seed(seed: int, strategy: str = RANDOM) -> int:
    """Return the seed of the first schedule of a search that was asked for with `seed`; the others count on from it.

    Searches with neighbouring seeds must not share schedules, so the seed is hashed. Seed 0 begins at 0. A search by
    plans goes through them in order.
    """
    if strategy == PLANS:
        from controlplane.scenarios.search.planning import PER_SEED

        return seed * PER_SEED
    if not seed:
        return 0
    return int.from_bytes(blake2b(str(seed).encode(), digest_size=6).digest(), "big")


@frozen
class Campaign:
    """The search through a plan's schedules, with one kind of strategy."""

    plan: Plan
    strategy: str = RANDOM

    def world(self, strategy: Strategy) -> World:
        """A fresh world for one schedule."""
        keep = self.plan.scenario.reads_log
        plan = self.plan_of(strategy)
        world = Execution(plan, strategy, log=EventLog(keep=keep)).world
        if isinstance(strategy, FairTail):
            world.as_time_passes(strategy.time_passes)
        return world

    def plan_of(self, strategy: Strategy) -> Plan:
        """The description of the runs with a strategy: under the perturbation plan that it brings, if it brings one."""
        from controlplane.scenarios.search.planning import Planned

        inner = strategy.inner if isinstance(strategy, FairTail) else strategy
        return self.plan.with_lines(inner.lines) if isinstance(inner, Planned) else self.plan

    def lines_of(self, seed: int) -> tuple[str, ...]:
        """The perturbation plan of the schedule with a seed; () if it has none."""
        if self.strategy != PLANS:
            return ()
        from controlplane.scenarios.search.planning import planned

        return planned(self.plan, seed).lines

    def explore(
        self,
        schedules: int,
        *,
        seed: int = 0,
        stop_at_first: bool = True,
        check_every: int = 0,
        progress: Callable[[int], None] | None = None,
        over: Callable[[], bool] | None = None,
    ) -> Exploration:
        """Run up to `runs` schedules on the bare driver, with seeds `seed`, `seed + 1`, ..., or until it is `over`.

        One of every `check_every` is run twice, to see whether only its choices decide.
        """
        answering, branches = self._answering(seed, over)
        return explore(
            self.world,
            schedules,
            seed=seed,
            strategy=answering,
            branches=branches,
            stop_at_first=stop_at_first,
            until_ns=self.plan.until_ns,
            check_every=0 if self.strategy == PLANS else check_every,
            progress=progress,
            over=over,
        )

    def parts(
        self,
        schedules: int,
        size: int,
        *,
        seed: int = 0,
        stop_at_first: bool = True,
        check_every: int = 0,
        over: Callable[[], bool] | None = None,
    ) -> Iterator[Exploration]:
        """`explore`, reported every `size` schedules; a strategy that learns or enumerates does so over all of them."""
        answering, branches = self._answering(seed, over)
        done = 0
        while done < schedules:
            part = explore(
                self.world,
                min(size, schedules - done),
                seed=seed + done,
                strategy=answering,
                branches=branches,
                stop_at_first=stop_at_first,
                until_ns=self.plan.until_ns,
                check_every=0 if self.strategy == PLANS else check_every,
                over=over,
            )
            done += part.schedules
            yield part
            if part.exhausted or (stop_at_first and part.findings) or (over is not None and over()):
                return

    def _answering(
        self, seed: int, over: Callable[[], bool] | None = None
    ) -> tuple[Callable[[int], Strategy], Branches | None]:
        """The strategy of each schedule, one by one or one object for all, and its forks, if it forks."""
        if self.strategy not in strategies.LEARNING:
            return lambda number: self.strategy_for(number, over), None
        one = self.strategy_for(seed, over)
        inner = one.inner if isinstance(one, FairTail) else one
        branches = inner.branch() if isinstance(inner, Branching) else None
        return lambda _number: one, branches

    def strategy_for(self, seed: int, over: Callable[[], bool] | None = None) -> Strategy:
        """The strategy with this seed, fair in the second half of an instant that does not end. Raises UsageError.

        `over` is asked amid a schedule, too: a schedule that never ends does not outlive its search.
        """
        if self.strategy == PLANS:
            from controlplane.scenarios.search.planning import planned

            found = planned(self.plan, seed)
            return found if over is None else FairTail(found, over=over)
        fair_after = self.plan["fair_after"]
        if fair_after is None and self.strategy not in strategies.ENUMERATING:
            fair_after = FAIR_AFTER
        try:
            return strategies.named(
                self.strategy,
                seed,
                fair_after=fair_after,
                fair_within=self.plan.scenario.livelock_limit // 2,
                over=over,
            )
        except ValueError as error:
            raise UsageError(f"--fair-after: {error}") from error

    def under(self, seed: int, driver: Driver = "bare") -> Execution:
        """The schedule with this seed, executed with its whole log."""
        strategy = self.strategy_for(seed)
        run = Execution(self.plan_of(strategy), strategy, log=EventLog())
        run.execute(driver)
        return run

    def again(self, finding: Finding, driver: Driver = "bare") -> Execution:
        """The schedule that was found, executed with its whole log."""
        result = finding.result
        lines = self.lines_of(finding.seed)
        return self.under_choices(result.choices, driver, result.marks, lines)

    def under_choices(
        self,
        choices: ChoiceList,
        driver: Driver = "bare",
        marks: Marks | None = None,
        lines: tuple[str, ...] = (),
    ) -> Execution:
        """The schedule with these choices, under a perturbation plan if one is given, executed with its whole log."""
        plan = self.plan.with_lines(lines) if lines else self.plan
        run = Execution(plan, Replay(choices, marks=marks), log=EventLog())
        run.execute(driver)
        return run

    def recording(self, finding: Finding) -> Recording:
        """The finding as something that can be replayed."""
        strategy = finding.world.strategy
        return recording_of(self.plan_of(strategy), finding.result, strategy)
