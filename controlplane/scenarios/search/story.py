"""The events of a finding, in a few lines.

Which decisions it takes; the nearest schedule in which all is well, and where the two part; the two
steps that met in the wrong order; and the events that led there, as `controlplane logs why violation` prints them.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from actors.strategies.demote import SCHEDULE
from controlplane.logs.reading import Kept, Line
from controlplane.logs.violation import LINES, tell
from controlplane.logs.vocabulary import LEVEL_OF
from controlplane.scenarios.search.shrinking import first_difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors import LogEvent
    from actors.footprint import Step
    from controlplane.logs.why import Entry
    from controlplane.scenarios.engine.execution import Execution
    from controlplane.scenarios.search.shrinking import Short

DRAWN = 3
"""The number of draws of users and faults that are named."""


@frozen
class Conflict:
    """Two steps that touch the same thing and stand the other way round in the passing run."""

    first: Step
    second: Step
    resource: str

    def __str__(self) -> str:
        return (
            f"step {self.first.number} ({self.first.task} at {self.first.point}) came before"
            f" step {self.second.number} ({self.second.task} at {self.second.point}); both touch {self.resource}"
        )


@frozen
class Story:
    """The parts of the story; `lines` puts them together."""

    violation: str
    decisions: tuple[str, ...]
    parting: str
    conflicts: tuple[Conflict, ...]
    log: Kept = field(repr=False)
    reason: str

    def lines(self, most: int = LINES) -> list[str]:
        """The story, in at most `lines` lines."""
        told = [self.violation]
        told += [f"decision: {each}" for each in self.decisions[:4]]
        if len(self.decisions) > 4:
            told.append(f"... and {len(self.decisions) - 4} more decisions")
        if self.parting:
            told.append(self.parting)
        told += [f"conflict: {each}" for each in self.conflicts[:1]]
        return told + [
            f"step {each.step}, {each.t:g} s: {each.actor}: {each.what}"
            for each in self.events(most - len(told))
        ]

    def events(self, room: int = LINES) -> list[Entry]:
        """The events that led there, at most this number."""
        last = self.log.last()
        return [] if last is None else tell(self.log, self.reason, last, room)

    def _repr_html_(self) -> str:
        """The story as notebooks show it: violation and decisions, then the events as a table."""
        heads = [self.violation, *(f"decision: {each}" for each in self.decisions), self.parting]
        told = "<br>".join(escape(each) for each in heads if each)
        rows = "".join(
            f"<tr><td>{each.step}</td><td>{each.t:g} s</td><td>{escape(each.actor)}</td>"
            f'<td style="text-align: left">{escape(each.what)}</td></tr>'
            for each in self.events()
        )
        names = "".join(f"<th>{name}</th>" for name in ("step", "time", "actor", "event"))
        return f"<p>{told}</p><table><thead><tr>{names}</tr></thead><tbody>{rows}</tbody></table>"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "violation": self.violation,
            "decisions": list(self.decisions),
            "parting": self.parting,
            "conflicts": [
                {
                    "resource": each.resource,
                    "first": {
                        "step": each.first.number,
                        "task": each.first.task,
                        "point": each.first.point,
                    },
                    "second": {
                        "step": each.second.number,
                        "task": each.second.task,
                        "point": each.second.point,
                    },
                }
                for each in self.conflicts
            ],
            "events": [
                {
                    "step": each.step,
                    "t": each.t,
                    "actor": each.actor,
                    "uid": each.uid,
                    "what": each.what,
                    **each.data,
                }
                for each in self.events()
            ],
        }


def story_of(short: Short) -> Story:
    """Tell a finding."""
    failing, passing = short.failing, short.passing
    shrunk = short.shrunk
    decisions = [str(each) for each in shrunk.demotions]
    if shrunk.remark:
        decisions.append(f"{shrunk.deviations} single choices ({shrunk.remark})")
    drawn = [
        f"{choice.kind} draws {choice.value} of {choice.n} for {choice.label!r}"
        for choice in shrunk.result.choices
        if choice.kind not in SCHEDULE and choice.value
    ]
    if drawn:
        decisions.append("; ".join(drawn[:DRAWN]) + (" ..." if len(drawn) > DRAWN else ""))
    if not decisions and short.plan.options["plan"]:
        decisions += [line for each in short.plan.options["plan"] for line in each.splitlines()]
    if not decisions:
        decisions.append("none: it happens in the default schedule, first in, first out")
    result = failing.result
    met = () if passing is None else tuple(conflicts(_steps(failing), _steps(passing)))
    return Story(
        f"{result.verdict} at step {result.steps}: {result.reason}",
        tuple(decisions),
        "" if passing is None else parting(failing, passing),
        met,
        Kept(map(_read, failing.world.log)),
        result.reason,
    )


def _read(event: LogEvent) -> Line:
    """An event as it would be read back from a log."""
    return Line(
        event.step,
        event.t_ns / 1_000_000_000,
        event.actor,
        event.task,
        event.event,
        level=LEVEL_OF.get(event.event, ""),
        obj=event.obj or "",
        uid=event.uid or "",
        rv=event.rv,
        cause=(event.cause,) if event.cause else (),
        data=dict(event.data or {}),
    )


def _steps(run: Execution) -> list[Step]:
    footprint = run.world.strategy.footprint
    return [] if footprint is None else footprint.steps


def parting(failing: Execution, passing: Execution) -> str:
    """The first choice in which the two runs differ."""
    mine, theirs = failing.result.choices, passing.result.choices
    at = first_difference(mine, theirs)
    if at >= len(mine) or at >= len(theirs):
        return "the nearest schedule in which all is well goes on as this one ends"
    step = _step_of_choice(_steps(failing), at)
    one, other = mine[at], theirs[at]
    where = f"step {step}" if step else f"choice {at}"
    if one.kind not in SCHEDULE:
        return (
            f"{where}: {one.kind} draws {one.value} for {one.label!r} here; where all is well,"
            f" {other.value} for {other.label!r}"
        )
    return f"{where}: {one.label} goes on here; where all is well, {other.label} does"


def _step_of_choice(steps: Iterable[Step], index: int) -> int:
    """The step that a choice picked, or that drew it; 0 if no step is known to have."""
    count = 0
    for step in steps:
        count += (step.among > 1) + step.draws
        if index < count:
            return step.number
    return 0


def conflicts(failing: Sequence[Step], passing: Sequence[Step], most: int = 5) -> list[Conflict]:
    """Accesses of two tasks to one thing, a write among them, that stand the other way round in `passing`."""
    position = {_name(step, count): at for at, (step, count) in enumerate(_counted(passing))}
    last_write: dict[str, tuple[Step, tuple[str, str, int]]] = {}
    readers: dict[str, list[tuple[Step, tuple[str, str, int]]]] = {}
    found: list[Conflict] = []
    for step, count in _counted(failing):
        name = _name(step, count)
        for resource, writes in step.accesses.items():
            if resource.startswith("task "):
                continue
            earlier = [last_write[resource]] if resource in last_write else []
            if writes:
                earlier += readers.get(resource, [])
            for before, known in earlier:
                if before.task == step.task or name not in position or known not in position:
                    continue
                if position[known] > position[name]:
                    found.append(Conflict(before, step, resource))
                    if len(found) == most:
                        return found
            if writes:
                last_write[resource] = (step, name)
                readers[resource] = []
            else:
                readers.setdefault(resource, []).append((step, name))
    return found


def _counted(steps: Iterable[Step]) -> Iterable[tuple[Step, int]]:
    """Each step with how often its task had run from this point before."""
    seen: dict[tuple[str, str], int] = {}
    for step in steps:
        key = (step.task, step.point)
        seen[key] = seen.get(key, 0) + 1
        yield step, seen[key]


def _name(step: Step, count: int) -> tuple[str, str, int]:
    return step.task, step.point, count
