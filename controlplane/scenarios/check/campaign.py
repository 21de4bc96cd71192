"""Many tries of one configuration: the events one at a time, in pairs, and under several schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, evolve, field, frozen

from actors import EventLog
from actors.log import Unheard
from controlplane.scenarios.check.events import Event, alike, events_of, pairs_of, without_alike
from controlplane.scenarios.check.scenario import (
    BEGIN,
    EVENTS,
    findings_of,
    has_begun,
    nodes_at_rest,
    placed_at_rest,
    rest_of,
)
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.search.exploring import RANDOM, Campaign, first_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from actors import Strategy
    from controlplane.scenarios.check.subject import Subject
    from controlplane.scenarios.check.verdicts import Finding
    from controlplane.scenarios.engine.plan import Plan

    CarryOut = Callable[
        [
            "Check",
            Sequence["Try"],
            Callable[[], bool],
            Callable[["Try"], None],
            Sequence[Event],
        ],
        Iterator[tuple["Try", "Outcome"]],
    ]

__all__ = ["Check", "Found", "Outcome", "Try", "in_order", "outcome_of"]


SLOW: Final = ("lose", "lose-zone", "spot")


@frozen
class Try:
    """One run: its events, and the seed of its schedule (None: the default schedule)."""

    events: tuple[Event, ...] = ()
    seed: int | None = None
    begin_s: float | None = None

    @property
    def told(self) -> tuple[tuple[Event, ...], int | None]:
        """The name of a try in reports: its events, and the seed of the order."""
        return self.events, self.seed

    def is_vain(self, restless: Sequence[Event]) -> bool:
        """Return whether it comes to nothing: an event follows one after which the cluster does not come to rest."""
        return len(self.events) > 1 and self.events[0] in restless

    def __str__(self) -> str:
        told = ", ".join(map(str, self.events)) or "no event"
        return told if self.seed is None else f"{told} (seed {self.seed})"


@frozen
class Found:
    """A finding and the try that shows it."""

    finding: Finding
    shown_by: Try


@frozen
class Outcome:
    """The result of a try: its findings, and its end if the run did not end as runs do ("" if it did)."""

    findings: tuple[Finding, ...]
    problem: str = ""

    @property
    def has_no_rest(self) -> bool:
        """Return whether the cluster did not come to rest."""
        return any(each.verdict == "never-at-rest" for each in self.findings)


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
    subject: Subject = field(init=False)
    """The configuration; its nodes are those of the files, then those that were there at rest."""
    _running: Execution | None = None
    _known: set[tuple[str, ...]] = field(factory=set)

    def __attrs_post_init__(self) -> None:
        self.subject = self.plan.given[1]

    def events(self) -> tuple[Event, ...]:
        """The events to try; with `only`, those whose text or kind is named."""
        events = events_of(self.subject, asked=bool(self.only))
        if not self.only:
            return events
        return tuple(each for each in events if {str(each), each.kind.name} & set(self.only))

    def run(
        self,
        *,
        carry_out: CarryOut | None = None,
        over: Callable[[], bool] = lambda: False,
        progress: Callable[[Try], None] = lambda _: None,
        found: Callable[[Found], None] = lambda _: None,
    ) -> list[Found]:
        """Try until all is tried or it is `over`; the findings in the order in which they came.

        `carry_out` carries the tries out: `in_order`, or `workers.shared` on several processes; they are counted in
        their order either way. `progress` is told of each try before it runs, `found` of each finding at once.
        """
        self.planned = 1
        progress(Try())
        run = self.executed(Try())
        outcome = outcome_of(run)
        self._count(Try(), outcome, found)
        if outcome.problem or outcome.has_no_rest or over() or not has_begun(run):
            return self.found
        self.subject = evolve(self.subject, nodes=nodes_at_rest(run))
        tries = self._tries(rest_of(run), alike(self.subject, placed_at_rest(run)))
        self.planned = 1 + len(tries)
        restless: list[Event] = []
        for each, outcome in (carry_out or in_order)(self, tries, over, progress, restless):
            if each.is_vain(restless):
                self.planned -= 1
                continue
            self._count(each, outcome, found)
            if len(each.events) == 1 and outcome.has_no_rest:
                restless.append(each.events[0])
        return self.found

    def interrupt(self, reason: str) -> None:
        """End the try that is running, for a signal handler."""
        if self._running is not None:
            self._running.world.interrupt(reason)

    def _tries(self, rest: float, same: Mapping[str, str]) -> list[Try]:
        events = self.events()
        singles = events if self.only else without_alike(events, same)
        tries = [Try((each,), begin_s=rest) for each in singles]
        if self.pairs:
            tries += [Try(each, begin_s=rest) for each in pairs_of(events, same)]
        tries.sort(key=_cost)
        first = first_seed(int(self.plan["seed"]))
        orders = range(first, first + self.schedules - 1)
        again = [Try(), *(Try(each.events) for each in tries)]
        again.sort(key=_cost)
        tries += [evolve(each, seed=seed) for seed in orders for each in again]
        return tries

    def _count(self, each: Try, outcome: Outcome, tell: Callable[[Found], None]) -> None:
        self.done += 1
        for finding in outcome.findings:
            if finding.identity not in self._known:
                self._known.add(finding.identity)
                self.found.append(Found(finding, each))
                tell(self.found[-1])
        if outcome.problem:
            self.problems.append(f"{each}: {outcome.problem}")

    def executed(self, each: Try) -> Execution:
        """The run of a try, at its end."""
        run = self._running = self.execution(each)
        run.execute("bare")
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


def _cost(each: Try) -> tuple[bool, int]:
    """Tries in which nodes fail take long, as it is noticed late; pairs take twice the time of one event."""
    return any(event.kind.name in SLOW for event in each.events), len(each.events)


def outcome_of(run: Execution) -> Outcome:
    """The result of a run."""
    found = tuple(findings_of(run))
    if found or run.result.ok:
        return Outcome(found)
    return Outcome((), f"the run ended as {run.result.verdict}: {run.result.reason}")


def in_order(
    check: Check,
    tries: Sequence[Try],
    over: Callable[[], bool],
    progress: Callable[[Try], None],
    restless: Sequence[Event],
) -> Iterator[tuple[Try, Outcome]]:
    """Carry out one try after the other until it is `over`; each with what it came to.

    Tries that are in vain (`Try.is_vain`) are not carried out; `restless` grows as outcomes are taken.
    """
    for each in tries:
        if over():
            return
        if each.is_vain(restless):
            yield each, Outcome(())
            continue
        progress(each)
        yield each, outcome_of(check.executed(each))
