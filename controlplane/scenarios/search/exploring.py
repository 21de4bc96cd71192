"""Many executions of a plan under many schedules, until something breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from actors import EventLog, Replay, explore, strategies
from controlplane.errors import UsageError
from controlplane.scenarios.engine.execution import Execution, recording_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors import ChoiceList, Exploration, Finding, Recording, Strategy, World
    from actors.log import Marks
    from actors.world import Driver
    from controlplane.scenarios.engine.plan import Plan

RANDOM = "random-walk"


@frozen
class Campaign:
    """The search through a plan's schedules, with one kind of strategy."""

    plan: Plan
    strategy: str = RANDOM

    def world(self, strategy: Strategy) -> World:
        """A fresh world for one schedule."""
        keep = self.plan.scenario.reads_log
        return Execution(self.plan, strategy, log=EventLog(keep=keep)).world

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
        return explore(
            self.world,
            schedules,
            seed=seed,
            strategy=self._answering(seed),
            stop_at_first=stop_at_first,
            until_ns=self.plan.until_ns,
            check_every=check_every,
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
        answering = self._answering(seed)
        done = 0
        while done < schedules:
            part = explore(
                self.world,
                min(size, schedules - done),
                seed=seed + done,
                strategy=answering,
                stop_at_first=stop_at_first,
                until_ns=self.plan.until_ns,
                check_every=check_every,
                over=over,
            )
            done += part.schedules
            yield part
            if part.exhausted or (stop_at_first and part.findings) or (over is not None and over()):
                return

    def _answering(self, seed: int) -> Callable[[int], Strategy]:
        """The strategy of each schedule: one by one, or one object for all."""
        if self.strategy not in strategies.LEARNING:
            return self.strategy_for
        one = self.strategy_for(seed)
        return lambda _number: one

    def strategy_for(self, seed: int) -> Strategy:
        """The strategy with this seed. Raises UsageError."""
        try:
            return strategies.named(self.strategy, seed, fair_after=self.plan["fair_after"])
        except ValueError as error:
            raise UsageError(f"--fair-after: {error}") from error

    def under(self, seed: int, driver: Driver = "bare") -> Execution:
        """The schedule with this seed, executed with its whole log."""
        run = Execution(self.plan, self.strategy_for(seed), log=EventLog())
        run.execute(driver)
        return run

    def again(self, finding: Finding, driver: Driver = "bare") -> Execution:
        """The schedule that was found, executed with its whole log."""
        return self.under_choices(finding.result.choices, driver, finding.result.marks)

    def under_choices(
        self, choices: ChoiceList, driver: Driver = "bare", marks: Marks | None = None
    ) -> Execution:
        """The schedule with these choices, executed with its whole log."""
        run = Execution(self.plan, Replay(choices, marks=marks), log=EventLog())
        run.execute(driver)
        return run

    def recording(self, finding: Finding) -> Recording:
        """The finding as something that can be replayed."""
        return recording_of(self.plan, finding.result, finding.world.strategy)
