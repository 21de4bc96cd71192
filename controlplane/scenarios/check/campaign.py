"""Many tries of one configuration: the events one at a time, in pairs, and under several schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from actors import EventLog
from actors.log import Unheard
from controlplane.scenarios.check.events import Event, events_of, pairs_of
from controlplane.scenarios.check.scenario import BEGIN, EVENTS, findings_of, rest_of
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.search.exploring import RANDOM, Campaign, first_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from actors import Strategy
    from controlplane.scenarios.check.subject import Subject
    from controlplane.scenarios.check.verdicts import Finding
    from controlplane.scenarios.engine.plan import Plan

__all__ = ["Check", "Found", "Try"]

FAILED: Final = ("failed", "invariant-error", "deadlock")


@frozen
class Try:
    """One run: its events, and the seed of its schedule (None: the default schedule)."""

    events: tuple[Event, ...] = ()
    seed: int | None = None
    begin_s: float | None = None

    def __str__(self) -> str:
        told = ", ".join(map(str, self.events)) or "no event"
        return told if self.seed is None else f"{told} (seed {self.seed})"


@frozen
class Found:
    """A finding and the try that shows it."""

    finding: Finding
    shown_by: Try


@define
class Check:
    """The tries of a configuration, and what was found.

    `done` counts the tries, `planned` those that there would be with time enough; `problems` are runs that ended for
    another reason than a finding.
    """

    plan: Plan
    schedules: int = 1
    pairs: bool = True
    only: Sequence[str] = ()
    found: list[Found] = field(factory=list)
    problems: list[str] = field(factory=list)
    done: int = 0
    planned: int = 0
    _known: dict[tuple[str, ...], Found] = field(factory=dict)

    @property
    def subject(self) -> Subject:
        """The configuration."""
        subject: Subject = self.plan.given[1]
        return subject

    def events(self) -> tuple[Event, ...]:
        """The events to try; with `only`, those whose text or kind is named."""
        events = events_of(self.subject)
        if not self.only:
            return events
        return tuple(each for each in events if {str(each), each.kind.name} & set(self.only))

    def run(
        self,
        *,
        over: Callable[[], bool] = lambda: False,
        progress: Callable[[Try], None] = lambda _: None,
    ) -> list[Found]:
        """Try until all is tried or it is `over`; the findings in the order in which they came."""
        rest = self._first(progress)
        if rest is None:
            return self.found
        tries = list(self._tries(rest))
        self.planned = 1 + len(tries)
        for each in tries:
            if over():
                break
            progress(each)
            self._carry_out(each)
        return self.found

    def _first(self, progress: Callable[[Try], None]) -> float | None:
        """The run in which nothing happens: when the cluster is at rest; None if it never is."""
        self.planned = 1
        progress(Try())
        run = self._carry_out(Try())
        if any(each.verdict == "never-at-rest" for each in findings_of(run)) or self.problems:
            return None
        return rest_of(run)

    def _tries(self, rest: float) -> Iterator[Try]:
        events = self.events()
        singles = [(each,) for each in events]
        pairs: Iterable[tuple[Event, ...]] = pairs_of(events) if self.pairs else ()
        yield from (Try(each, begin_s=rest) for each in singles)
        yield from (Try(each, begin_s=rest) for each in pairs)
        first = first_seed(int(self.plan["seed"]))
        for number in range(self.schedules - 1):
            yield Try((), first + number)
            yield from (Try(each, first + number) for each in singles)

    def _carry_out(self, each: Try) -> Execution:
        run = self.execution(each)
        run.execute("bare")
        self.done += 1
        found = findings_of(run)
        for finding in found:
            if finding.identity not in self._known:
                self._known[finding.identity] = Found(finding, each)
                self.found.append(self._known[finding.identity])
        if not found and not run.result.ok:
            self.problems.append(
                f"{each}: the run ended as {run.result.verdict}: {run.result.reason}"
            )
        return run

    def execution(self, each: Try, log: EventLog | None = None) -> Execution:
        """The run of a try; with its whole log and a recording if a log is given."""
        texts = tuple(map(str, each.events))
        plan = self.plan.changed({EVENTS.key: texts, BEGIN.key: each.begin_s})
        return Execution(plan, self._strategy(each), log=log or Unheard())

    def _strategy(self, each: Try) -> Strategy | None:
        if each.seed is None:
            return Campaign(self.plan, self.plan["strategy"]).strategy_for(self.plan["seed"])
        return Campaign(self.plan, RANDOM).strategy_for(each.seed)
