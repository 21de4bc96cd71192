"""After every fault the world ends where it ends when nothing fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from attrs import evolve

from actors import EventLog, strategies
from controlplane.scenarios.engine.convergence import End, difference, end_of, unstable
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import all_objects

if TYPE_CHECKING:
    from controlplane.scenarios.engine.execution import Execution
    from controlplane.scenarios.engine.run import Run

CALM = (("fifo", 0), ("random-walk", 1), ("random-walk", 2), ("pct-actor", 3))
"""The runs without faults: in what they differ among themselves, nothing is asked."""
CALM_ENDS = "how calm runs end"
DRAWN = "workload"
"""The kind of choices that users draw."""


def converges() -> Invariant:
    """Once nothing moves: all objects are as in the runs of the same scenario without its faults, apart from masks.

    The workload must not draw anything (`User.choose`), or the runs would not be the same; one that
    does, and one whose calm runs do not end well, is a mistake in the scenario: an exception.
    """

    def check(run: Run) -> str | None:
        execution = cast("Execution", run)
        if any(kind == DRAWN for kind, _ in execution.world.choices.labels):
            raise ValueError("converges(): the workload draws, so no two of its runs are the same")
        found = execution.plan.found
        if CALM_ENDS not in found:
            found[CALM_ENDS] = _calm(execution)
        expected, masks = found[CALM_ENDS]
        return difference(end_of(all_objects(run)), expected, masks)

    return Invariant("the world ends as when nothing fails", check)


def _calm(execution: Execution) -> tuple[End, dict[str, Any]]:
    """The final states of runs without faults, and their differences."""
    plan = execution.plan
    calm = evolve(
        plan,
        options={**plan.options, "plan": ()},
        scenario=evolve(plan.scenario, faults=(), invariants=(), sometimes=()),
    )
    ends = []
    for name, seed in CALM:
        run = type(execution)(calm, strategies.named(name, seed), log=EventLog(keep=False))
        result = run.execute("bare")
        if not result.ok:
            raise ValueError(
                f"converges(): without faults the scenario ends in {result.verdict}: {result.reason}"
            )
        ends.append(end_of(all_objects(run)))
    return ends[0], unstable(ends)
