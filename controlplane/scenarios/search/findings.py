"""The part of a finding that outlives an edit, kept beside its recording and tried again on changed code.

A recording repeats every choice of one version of the code. What matters of a finding outlives the next edit: its
perturbation plan, the demotions of its schedule, the draws of its users and faults. `try_again` carries them out over
the code as it is now, the plan first, then the demotions, then the recorded choices by their names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from attrs import asdict, evolve, field, frozen

from actors import EventLog, private_files
from actors.shrink import failure, identity
from actors.strategies.demote import Demote, Demotion
from actors.strategies.follow import Follow
from controlplane.errors import UsageError
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.option import ANY
from controlplane.scenarios.search import replaying

if TYPE_CHECKING:
    from pathlib import Path

    from actors import ChoiceList, Strategy
    from controlplane.scenarios.engine.allowed_code import AllowedCode
    from controlplane.scenarios.engine.plan import Plan
    from controlplane.scenarios.search.shrinking import Short

__all__ = ["FINDING", "Attempt", "Finding", "finding_of", "load", "try_again", "tried"]

FINDING: Final = "finding.json"
FORMAT: Final = 1
STILL, OTHERWISE, NO_LONGER = "still breaks", "breaks otherwise", "no longer breaks"
NOT_REACHED, NOT_FOLLOWED = "not reached", "cannot be followed from"


@frozen
class Finding:
    """The part of a finding that outlives an edit of the code.

    `lines` is the perturbation plan, `demotions` and `data` are the shrunk schedule and draws, None where the
    schedule could not be expressed by demotions; `choices` are those of the recording. `scenario` and `options` say
    to which search it belongs.
    """

    verdict: str
    reason: str
    lines: tuple[str, ...] = ()
    demotions: tuple[Demotion, ...] | None = None
    data: dict[str, tuple[int, ...]] = field(factory=dict)
    scenario: str = ""
    options: dict[str, Any] = field(factory=dict)
    choices: ChoiceList | None = field(default=None, repr=False)

    @property
    def identity(self) -> tuple[str, str]:
        """The identity of the failure."""
        return failure(self.verdict, self.reason)

    def belongs_to(self, plan: Plan) -> bool:
        """Return whether it was found by a search of this scenario with these options, as far as both have them."""
        now = _options(plan)
        return (
            self.scenario == plan.scenario.name
            and self.options.get("release") == now["release"]
            and all(
                value == ANY or theirs.get(key, value) == value
                for part in ("options", "gates")
                for theirs in [self.options.get(part, {})]
                for key, value in now[part].items()
            )
        )

    def save(self, folder: Path) -> None:
        """Leave it beside the recording, whole or not at all, for its owner alone to read."""
        demotions = self.demotions
        told = {
            "format": FORMAT,
            "verdict": self.verdict,
            "reason": self.reason,
            "plan": [line for each in self.lines for line in each.splitlines()],
            "demotions": None if demotions is None else [asdict(each) for each in demotions],
            "draws": self.data,
            "scenario": self.scenario,
            "options": self.options,
        }
        private_files.write(folder / FINDING, json.dumps(told, indent=2) + "\n")


def _options(plan: Plan) -> dict[str, Any]:
    """Return what a search was asked for, without its perturbation plan."""
    header = plan.header()
    kept = {key: value for key, value in header["options"].items() if key != "plan"}
    found = {"options": kept, "release": header["release"], "gates": header["gates"]}
    made: dict[str, Any] = json.loads(json.dumps(found))
    return made


def finding_of(short: Short) -> Finding:
    """Return what matters of a finding that was made short."""
    result, shrunk = short.failing.result, short.shrunk
    return Finding(
        result.verdict,
        result.reason,
        tuple(line for each in short.lines for line in each.splitlines()),
        None if shrunk.remark else shrunk.demotions,
        {kind: tuple(numbers) for kind, numbers in shrunk.data.items()},
        short.plan.scenario.name,
        _options(short.plan),
        result.choices,
    )


def load(place: Path) -> Finding:
    """Read what matters of the finding in a folder, or of a recording alone. Raises UsageError or RecordingError."""
    recording = replaying.load(place, any_version=True)
    bare = Finding(recording.verdict, recording.reason, choices=recording.choices)
    path = (place if place.is_dir() else place.parent) / FINDING
    if not path.exists():
        return evolve(bare, lines=tuple(recording.header["options"].get("plan", ())))
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != FORMAT:
            raise UsageError(f"{path}: format {told['format']!r}, expected {FORMAT}")
        demotions = told["demotions"]
        return evolve(
            bare,
            lines=tuple(map(str, told["plan"])),
            demotions=None if demotions is None else tuple(Demotion(**each) for each in demotions),
            data={str(kind): tuple(map(int, each)) for kind, each in told["draws"].items()},
            scenario=str(told["scenario"]),
            options=told["options"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a finding: {error!r}") from error


@frozen
class Attempt:
    """The outcome of a finding that was tried again, and the run that shows it."""

    outcome: str
    detail: str
    run: Execution = field(repr=False)

    @property
    def breaks(self) -> bool:
        """Return whether the run broke, as found or otherwise."""
        return self.outcome in (STILL, OTHERWISE)

    def __str__(self) -> str:
        between = " " if self.outcome == NOT_FOLLOWED else ": "
        return self.outcome + (f"{between}{self.detail}" if self.detail else "")


_PREFERRED: Final = (OTHERWISE, NO_LONGER, NOT_REACHED, NOT_FOLLOWED)


def try_again(plan: Plan, finding: Finding) -> Attempt:
    """Carry out what matters of a finding over the code as it is; at most three runs.

    Args:
        plan: the scenario as it is now, with the options of the search.
        finding: what was found.
    """
    attempts = []
    for under, strategy in _forms(plan, finding):
        attempt = _attempt(under, strategy, finding)
        if attempt.outcome == STILL:
            return attempt
        attempts.append(attempt)
    return min(attempts, key=lambda each: _PREFERRED.index(each.outcome))


def _forms(plan: Plan, finding: Finding) -> list[tuple[Plan, Strategy]]:
    """Return the ways to carry a finding out, the one that changes of code disturb least first."""
    found: list[tuple[Plan, Strategy]] = []
    recorded = finding.options.get("options", {})
    varied = next(iter(plan.variants()))
    plan = plan.under(tuple((key, recorded.get(key, value)) for key, value in varied))
    under = plan.with_lines(("\n".join(finding.lines),)) if finding.lines else plan
    if finding.lines:
        found.append((under, Demote((), finding.data)))
    if finding.demotions is not None and (finding.demotions or not finding.lines):
        found.append((plan, Demote(finding.demotions, finding.data)))
    if finding.choices is not None:
        found.append((plan, Follow(finding.choices)))
    return found


def _attempt(plan: Plan, strategy: Strategy, finding: Finding) -> Attempt:
    run = Execution(plan, strategy, log=EventLog())
    result = run.execute("bare")
    if identity(result) == finding.identity:
        return Attempt(STILL, result.reason, run)
    if not result.ok:
        return Attempt(OTHERWISE, f"{result.verdict}: {result.reason}", run)
    if run.control is not None:
        missing = [each.line for each in run.control.outcomes() if not each.reached]
        if missing:
            return Attempt(NOT_REACHED, missing[0], run)
    if isinstance(strategy, Demote):
        unmet = [each for each in strategy.demotions if each not in strategy.met]
        if unmet:
            return Attempt(NOT_REACHED, str(unmet[0]), run)
    if isinstance(strategy, Follow) and strategy.departed:
        return Attempt(NOT_FOLLOWED, strategy.departed, run)
    return Attempt(NO_LONGER, "", run)


def tried(place: Path, allowed: AllowedCode | None = None) -> Attempt:
    """Try the finding in a folder, or a recording, again on the code as it is.

    Args:
        place: the folder of a finding, or a recording.
        allowed: the Python code that may run; all of it where None.

    Raises UsageError or RecordingError.
    """
    recording = replaying.load(place, any_version=True)
    if recording.inputs:
        raise UsageError(f"{place}: a served session takes input from outside: replay it exactly")
    finding = load(place)
    plan = replaying.plan_of_changed_code(recording, place, allowed)
    return try_again(plan, finding)
