"""Blind power: which gates the default churn finds when it is not told what to look for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from controlplane.gates import CATALOGUE
from controlplane.scenarios.churn import SCENARIO
from controlplane.scenarios.exploring import Campaign
from controlplane.scenarios.plan import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

PASSED_OVER = "livelock"
COMPONENT = "scheduler"
"""The component that the churn looks at."""


@frozen
class Found:
    """What a search found with one gate off: in which schedule (0: in none of `tried`), and what broke."""

    gate: str
    title: str
    schedule: int
    tried: int
    steps: int
    verdict: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "gate": self.gate,
            "title": self.title,
            "schedule": self.schedule or None,
            "tried": self.tried,
            "steps": self.steps,
            "verdict": self.verdict,
            "reason": self.reason,
        }


def gates() -> tuple[str, ...]:
    """The gates that are looked for: the scheduler's, ascending."""
    ours = (gate.number for gate in CATALOGUE.values() if gate.component == COMPONENT)
    return tuple(sorted(ours, key=int))


def every_fix(but: str = "") -> tuple[str, ...]:
    """The option --fix that puts all fixes in force but one, each in the form that leaves the least open."""
    return tuple(
        f"{gate.number}={gate.strongest}" for gate in CATALOGUE.values() if gate.number != but
    )


def look_for(
    gate: str,
    schedules: int,
    *,
    strategy: str,
    seed: int = 0,
    over: Callable[[], bool] | None = None,
) -> Found:
    """Search with this gate off and all others on, whichever release has them. Gate "" turns none off.

    A livelock is passed over: the repair that is proposed for 142294 preempts over and over, in no
    time, while the scheduler does not hear that its victim is gone.
    """
    fix = every_fix(gate)
    plan = plan_of(SCENARIO, fix=fix, without_fix=(gate,) if gate else ())
    tried = steps = 0
    first = None
    while tried < schedules:
        seen = Campaign(plan, strategy).explore(schedules - tried, seed=seed + tried, over=over)
        tried += seen.schedules
        steps += seen.steps
        first = seen.findings[0] if seen.findings else None
        if first is None or first.result.verdict != PASSED_OVER:
            break
        first = None
        if over is not None and over():
            break
    return Found(
        gate,
        CATALOGUE[gate].title if gate else "every fix on",
        tried if first else 0,
        tried,
        steps,
        first.result.verdict if first else "",
        first.result.reason if first else "",
    )
