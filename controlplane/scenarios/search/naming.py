"""The cause of a finding, where it can be known: a published race, the emulator, or the user's own code.

A race is known when its fix cures the finding: with the gate in force, neither the plan of the finding nor its
demotions nor its choices break the same. A fix that only touches the code that runs moves the schedule; so a gate
counts only if every form of the finding ends without this failure.
"""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Final

from attrs import evolve, frozen

from actors import LinkBroken
from controlplane.client.errors import ApiError
from controlplane.gates import CATALOGUE, FixGates
from controlplane.scenarios.authoring.words import NotReached
from controlplane.scenarios.search.findings import STILL, finding_of, try_again

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import RunResult
    from controlplane.gates import FixGate
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.search.findings import Finding
    from controlplane.scenarios.search.shrinking import Short

__all__ = ["Cause", "cause_of", "open_races", "repaired"]

KUBERNETES, EMULATOR, SCENARIO = "Kubernetes", "emulator", "scenario"
_RAISED: Final = ("failed", "invariant-error")
"""Verdicts of runs that an exception ended."""
_ANSWERS: Final = (ApiError, LinkBroken, NotReached)
"""Exceptions by which a user of a scenario is told of something: not to expect them is the scenario's mistake."""
_PACKAGES: Final = ("actors", "controlplane")
_ROOT: Final = Path(__file__).parents[3]
_WORDS: Final = _ROOT / "controlplane" / "scenarios" / "authoring"
"""The code that carries out scenarios in YAML."""


@frozen
class Cause:
    """The cause of a finding: the part at fault, "" where it is not known, and the known races."""

    at_fault: str = ""
    known: tuple[FixGate, ...] = ()
    where: str = ""
    """The place at which an exception was raised."""

    def lines(self) -> list[str]:
        """Sentences for people; one for each known race."""
        if self.known:
            return [
                f"known: {each.number}, {standing(each)} ({each.component}): {each.title}"
                for each in self.known
            ]
        if self.at_fault == EMULATOR:
            return [f"at fault: this emulator, which raised an exception at {self.where}"]
        if self.at_fault == SCENARIO:
            place = f", at {self.where}" if self.where else ", which did not expect that"
            return [f"at fault: the scenario's own code{place}"]
        return []

    def to_json(self) -> dict[str, object]:
        """For programs."""
        return {
            "at_fault": self.at_fault or None,
            "known": [
                {"number": each.number, "standing": standing(each), "title": each.title}
                for each in self.known
            ],
            **({"where": self.where} if self.where else {}),
        }


def standing(gate: FixGate) -> str:
    """Return where upstream stands with a race: open, or the release that has its fix."""
    return f"fixed in {gate.fixed_in}" if gate.fixed_in else "open upstream"


def open_races(gates: FixGates) -> tuple[FixGate, ...]:
    """Return the gates of the known races that are not fixed in a run, or in a form that leaves something open."""
    return tuple(
        gate
        for number, gate in CATALOGUE.items()
        if not gates.fixed(number) or (gate.complete and gates.variant(number) != gate.complete)
    )


def repaired(gates: FixGates, races: tuple[FixGate, ...]) -> FixGates:
    """Return gates with the repairs of some races in force, in their most complete forms."""
    return FixGates({**gates.chosen, **{each.number: each.strongest for each in races}})


def cause_of(short: Short, over: Callable[[], bool] = lambda: False) -> Cause:
    """Return the cause of a finding that was made short. No further run begins once it is `over`."""
    result = short.failing.result
    raised = _raised(result)
    if raised is not None:
        return raised
    known = _known(short.plan.with_lines(()), finding_of(short), over)
    return Cause(KUBERNETES, known) if known else Cause()


def _known(plan: Plan, finding: Finding, over: Callable[[], bool]) -> tuple[FixGate, ...]:
    """Return the open races whose repair alone cures a finding.

    A fix that is in force in a form that leaves something open is asked only if no missing fix is to blame.
    """
    races = open_races(plan.gates)
    if not races or over() or _breaks(plan, finding, races):
        return ()  # it breaks with all repairs in force: no known race is the cause
    in_part = [each for each in races if plan.gates.fixed(each.number)]
    found: list[FixGate] = []
    for each in (*(race for race in races if race not in in_part), *in_part):
        if over() or (found and each in in_part):
            break
        if not _breaks(plan, finding, (each,)):
            found.append(each)
    return tuple(found)


def _breaks(plan: Plan, finding: Finding, races: tuple[FixGate, ...]) -> bool:
    fixed = evolve(plan, gates=repaired(plan.gates, races))
    return try_again(fixed, finding).outcome == STILL


def _raised(result: RunResult) -> Cause | None:
    """Return the cause of a run that an exception ended, None for others."""
    if result.verdict not in _RAISED or result.error is None:
        return None
    places = [
        (Path(frame.filename), f"{Path(frame.filename).name}:{frame.lineno}")
        for frame in extract_tb(result.error.__traceback__)
    ]
    if not places:
        return Cause()
    foreign = [where for path, where in places if not _is_ours(path)]
    declared = any(path.is_relative_to(_WORDS) for path, _ in places)
    if isinstance(result.error, _ANSWERS) and (foreign or declared):
        return Cause(SCENARIO, where=foreign[-1] if foreign else "")
    path, where = places[-1]
    return Cause(EMULATOR if _is_ours(path) else SCENARIO, where=where)


def _is_ours(path: Path) -> bool:
    return any(path.is_relative_to(_ROOT / name) for name in _PACKAGES)
