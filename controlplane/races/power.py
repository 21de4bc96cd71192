"""Blind power: which gates the default churn finds without a hint what to look for.

One gate is turned off at a time and all others are in force, each in the form that leaves the least
open. A few bugs cannot show themselves then, because a later fix hides them: these are looked for with
that fix off too, as their entry in the catalogue does, and laws that break already when only the
hiding fix is off do not count (`HIDDEN`).
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

from attrs import evolve, field, frozen

from controlplane.gates import CATALOGUE, by_number
from controlplane.scenarios.churns import (
    controller_churn,
    kubelet_churn,
    kueue_churn,
    storage_churn,
)
from controlplane.scenarios.churns import scheduler_churn as churn
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.search import parallel
from controlplane.scenarios.search.exploring import Campaign, first_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from controlplane.scenarios.engine.plan import Plan

COMPONENT = "scheduler"
"""The component whose gates are tested by default."""
CHURNS = {
    "scheduler": churn,
    "kubelet": kubelet_churn,
    "controllers": controller_churn,
    "storage": storage_churn,
    "kueue": kueue_churn,
    "apiserver": controller_churn,
    "client": controller_churn,
}
"""The default churn of each component; API server and client library are under that of the controllers."""


@frozen
class Hidden:
    """A bug that a later fix hides: the fixes to be turned off too, and the laws that break without these alone."""

    by: tuple[str, ...]
    broken: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(factory=dict)
    """Of the churn: what only the world of that time did."""


HIDDEN: Mapping[str, Hidden] = {
    "96071": Hidden(("125578",), ("I5", "a pod is requeued once"), {"resync": 7}),
    "127016": Hidden(("125578",), ("I5", "a pod is requeued once")),
    "106102": Hidden(
        ("134157",), ("a pod that is gone takes no room", "no pod that is gone is in flight")
    ),
    "86320": Hidden((), options={"faults": False}),
    "90377": Hidden((), options={"faults": False}),
    "103979": Hidden((), options={"faults": False}),
    "104824": Hidden((), options={"faults": False}),
    "132851": Hidden((), options={"faults": False}),
    "kq3612": Hidden((), options={"crashes": True, "replicas": 2}),
    "kq10518": Hidden((), options={"crashes": True, "replicas": 2}),
    "here12": Hidden((), options={"crashes": True, "replicas": 2}),
    "139162": Hidden(
        ("142294",),
        ("no pod waits before an open gate", "no pod waits before an open gate, in the end"),
    ),
}
"""By gate. What is left of the laws holds with the hiding fix alone off, in as many schedules.

Some laws of kubelets are asked only where none crashes: one that restarts forgets what containers run on. And
without 86320 a kubelet that was cut off may write one pod's status to another, for ever.
"""


@frozen
class Found:
    """The result of one search with a gate off: the finding schedule (0: none of `tried`), and the broken invariant.

    `strategy` is whose turn it was in the portfolio; `wall_s` is wall seconds.
    """

    gate: str
    schedule: int
    tried: int
    steps: int
    verdict: str
    reason: str
    strategy: str
    seed: int = 0
    wall_s: float = field(default=0.0, eq=False)

    @property
    def title(self) -> str:
        """The effect of the missing fix."""
        return CATALOGUE[self.gate].title if self.gate else "every fix on"

    @property
    def law(self) -> str:
        """The broken invariant's name, or the verdict."""
        return self.reason.partition(":")[0] if self.verdict == "violated" else self.verdict

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "gate": self.gate,
            "title": self.title,
            "seed": self.seed,
            "schedule": self.schedule or None,
            "tried": self.tried,
            "steps": self.steps,
            "verdict": self.verdict,
            "reason": self.reason,
            "strategy": self.strategy,
            "wall_s": round(self.wall_s, 2),
        }


@frozen
class Power:
    """The results of the searches for one gate, one per seed."""

    gate: str
    searches: tuple[Found, ...]

    @property
    def found(self) -> tuple[Found, ...]:
        """Searches that found something."""
        return tuple(each for each in self.searches if each.schedule)

    @property
    def schedules(self) -> float | None:
        """The median of schedules to find it; None when half of the searches found nothing."""
        return self._median(lambda each: each.schedule)

    @property
    def seconds(self) -> float | None:
        """The same of wall seconds."""
        return self._median(lambda each: each.wall_s)

    def _median(self, of: Callable[[Found], float]) -> float | None:
        endless = float("inf")
        middle = median(of(each) if each.schedule else endless for each in self.searches)
        return None if middle == endless else middle

    @property
    def laws(self) -> tuple[str, ...]:
        """The broken invariants, most frequent first."""
        return _most_often_first(each.law for each in self.found)

    @property
    def strategies(self) -> tuple[str, ...]:
        """The actors whose turn it was, most frequent first."""
        return _most_often_first(each.strategy for each in self.found)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "gate": self.gate,
            "title": self.searches[0].title,
            "hidden_by": hidden_by(self.gate),
            "schedules": self.schedules,
            "seconds": None if self.seconds is None else round(self.seconds, 2),
            "found": len(self.found),
            "of": len(self.searches),
            "searches": [each.to_json() for each in self.searches],
        }


def _most_often_first(names: Iterable[str]) -> tuple[str, ...]:
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = counts.get(name, 0) + 1
    return tuple(sorted(counts, key=lambda name: -counts[name]))


def gates(component: str = COMPONENT) -> tuple[str, ...]:
    """The gates that are looked for: those of a component, ascending."""
    ours = (gate.number for gate in CATALOGUE.values() if gate.component == component)
    return tuple(sorted(ours, key=by_number))


def every_fix(*but: str) -> tuple[str, ...]:
    """The option --fix that puts all fixes in force but these, each in the form that leaves the least open."""
    return tuple(
        f"{gate.number}={gate.strongest}" for gate in CATALOGUE.values() if gate.number not in but
    )


def hidden_by(gate: str) -> tuple[str, ...]:
    """The fixes that have to be off too for the bug to show itself."""
    return HIDDEN[gate].by if gate in HIDDEN else ()


@cache
def plan_without(gate: str, component: str = COMPONENT) -> Plan:
    """The churn with this gate off and all others on, whichever release has them. Gate "" turns none off."""
    hidden = HIDDEN.get(gate, Hidden(()))
    off = (gate, *hidden.by) if gate else ()
    scenario = CHURNS[component].SCENARIO
    if hidden.broken:
        scenario = evolve(scenario, invariants=churn.invariants(hidden.broken))
    return plan_of(scenario, fix=every_fix(*off), without_fix=off, **hidden.options)


def _no_clock() -> float:
    return 0.0


def look_for(
    gate: str,
    schedules: int,
    *,
    strategy: str,
    seed: int = 0,
    over: Callable[[], bool] | None = None,
    clock: Callable[[], float] = _no_clock,
    component: str = COMPONENT,
) -> Found:
    """Search with this gate off for anything that breaks, with one seed. `clock` gives wall seconds."""
    started = clock()
    seen = Campaign(plan_without(gate, component), strategy).explore(
        schedules, seed=seed, over=over
    )
    first = seen.findings[0] if seen.findings else None
    return Found(
        gate,
        first.schedule if first else 0,
        seen.schedules,
        seen.steps,
        first.result.verdict if first else "",
        first.result.reason if first else "",
        _whose_turn(first.world.strategy.parameters(), strategy) if first else "",
        seed,
        clock() - started,
    )


def _whose_turn(parameters: Mapping[str, Any], strategy: str) -> str:
    parts = (parameters.get("member", strategy), parameters.get("by"), parameters.get("depth"))
    return " ".join(str(part) for part in parts if part)


@frozen
class _Asked:
    gate: str
    schedules: int
    strategy: str
    seed: int
    seconds: float | None
    clock: Callable[[], float]
    component: str


def _search(asked: _Asked, cut_short: Callable[[], bool] = parallel.cut_short) -> Found:
    """One search; called in a worker."""
    clock = asked.clock
    end = None if asked.seconds is None else clock() + asked.seconds

    def over() -> bool:
        return cut_short() or (end is not None and clock() >= end)

    return look_for(
        asked.gate,
        asked.schedules,
        strategy=asked.strategy,
        seed=asked.seed,
        over=over,
        clock=clock,
        component=asked.component,
    )


def measure(
    gates: Sequence[str],
    schedules: int,
    *,
    strategy: str,
    seed: int = 0,
    seeds: int = 1,
    seconds: float | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    clock: Callable[[], float] = _no_clock,
    component: str = COMPONENT,
    over: Callable[[], bool] = lambda: False,
) -> list[Power]:
    """Search for each gate with this many seeds, on `jobs` processes.

    `seconds` limits the wall time of each search, by `clock`. `progress` is called with the number of
    searches done and their total. Once `over` says so the searches under way are abandoned: only
    the gates of which all searches have ended have a row.
    """
    asked = [
        _Asked(gate, schedules, strategy, first_seed(seed + number), seconds, clock, component)
        for gate in gates
        for number in range(seeds)
    ]
    jobs = min(jobs, len(asked))
    found: dict[int, Found] = {}

    def note(number: int, one: Found) -> None:
        found[number] = one
        if progress is not None:
            progress(len(found), len(asked))

    if jobs == 1:
        for number, each in enumerate(asked):
            one = _search(each, over)
            if over():
                break
            note(number, one)
    else:
        _measure_in_parallel(asked, jobs, note, over)
    each_gates = [range(at * seeds, (at + 1) * seeds) for at in range(len(gates))]
    return [
        Power(gate, tuple(found[number] for number in numbers))
        for gate, numbers in zip(gates, each_gates, strict=True)
        if all(number in found for number in numbers)
    ]


def _measure_in_parallel(
    asked: Sequence[_Asked], jobs: int, note: Callable[[int, Found], None], over: Callable[[], bool]
) -> None:
    """Call `note` with each search that has ended, in the order in which they end."""
    context = parallel.start_context()
    told = context.RawValue("b", 0)
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=parallel.begin_worker, initargs=(told,)
    ) as pool:
        running = {pool.submit(_search, each): number for number, each in enumerate(asked)}
        while running:
            finished, _ = wait(running, parallel.LOOK_EVERY_S, return_when=FIRST_COMPLETED)
            if over():
                told.value = 1
                pool.shutdown(wait=False, cancel_futures=True)
                return
            for future in sorted(finished, key=running.__getitem__):
                note(running.pop(future), future.result())
