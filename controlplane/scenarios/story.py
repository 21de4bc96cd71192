"""What happened in a finding, told in a few lines.

Which decisions it takes; the nearest schedule in which all is well, and where the two part; the two
steps that met in the wrong order; and what was read, told and written about the objects that the
violation names, with uid and version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from actors.jsonl import seconds
from actors.strategies.demote import SCHEDULE
from controlplane.logs.violation import FAULT, LINES, TELLING, chosen, named_in, steps_in, uids_in
from controlplane.scenarios.shrinking import first_difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from actors import LogEvent
    from actors.footprint import Step
    from controlplane.scenarios.execution import Execution
    from controlplane.scenarios.shrinking import Short

DRAWN = 3
"""So many draws of users and faults are named."""


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
    events: tuple[LogEvent, ...] = field(repr=False)
    focus: tuple[int, ...] = ()
    """The steps around which it happened: what is told in full if there is no room for everything."""

    def lines(self, most: int = LINES) -> list[str]:
        """The story, in at most so many lines."""
        told = [self.violation]
        told += [f"decision: {each}" for each in self.decisions[:4]]
        if len(self.decisions) > 4:
            told.append(f"... and {len(self.decisions) - 4} more decisions")
        if self.parting:
            told.append(self.parting)
        told += [f"conflict: {each}" for each in self.conflicts[:1]]
        room = most - len(told)
        shown = chosen(self.events, room, self.focus)
        return told + [_line(event) for event in shown]

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
                    "step": event.step,
                    "t": float(seconds(event.t_ns)),
                    "actor": event.actor,
                    "event": event.event,
                    "obj": event.obj,
                    "uid": event.uid,
                    "rv": event.rv,
                    "data": dict(event.data or {}),
                }
                for event in self.events
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
    if not decisions:
        decisions.append("none: it happens in the plain order, first in first out")
    result = failing.result
    events = list(failing.world.log)
    users = short.plan.scenario.mains()
    about = named_in(result.reason, events) or written_by(users, events)
    uids = uids_in(result.reason)
    met = () if passing is None else tuple(conflicts(_steps(failing), _steps(passing)))
    focus = (
        *sorted(steps_in(result.reason)),
        *(event.step for event in events if _is_about(event, uids)),
    )
    return Story(
        f"{result.verdict} at step {result.steps}: {result.reason}",
        tuple(decisions),
        "" if passing is None else parting(failing, passing),
        met,
        tuple(
            event
            for event in events
            if event.event == FAULT or (event.event in TELLING and _concerns(event, about))
        ),
        focus or (result.steps,),
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


def written_by(users: Iterable[str], events: Iterable[LogEvent]) -> set[str]:
    """The objects that these actors wrote: what a violation is about that names none."""
    names = set(users)
    return {
        event.obj
        for event in events
        if event.obj is not None
        and event.event == "apiserver.write"
        and (event.data or {}).get("by") in names
    }


def _is_about(event: LogEvent, uids: set[str]) -> bool:
    """Whether an event is about one of these very objects."""
    popped = (event.data or {}).get("popped")
    return event.event in TELLING and (event.uid in uids or popped in uids)


def _concerns(event: LogEvent, about: set[str]) -> bool:
    return event.obj is not None and (not about or event.obj in about)


def _line(event: LogEvent) -> str:
    data = dict(event.data or {})
    said = {
        "apiserver.write": lambda: (
            f"{data.get('by', 'somebody')}: {data.get('verb')} ({data.get('code')})"
        ),
        "informer.told": lambda: (
            f"{event.actor} is told: {data.get('kind')}"
            + (f", was {data['was'][:8]}" if "was" in data else "")
        ),
        "scheduler.popped": lambda: f"{event.actor} pops it",
        "scheduler.read": lambda: (
            f"{event.actor} reads it by its name; it had popped uid {data['popped'][:8]}"
            if data["found"]
            else f"{event.actor} reads by its name, and there is none"
        ),
        "client.read": lambda: f"{event.actor} reads it from the server",
        "fault": lambda: "fault: " + " ".join(str(value) for value in data.values()),
    }.get(event.event)
    what = said() if said is not None else f"{event.actor}: {event.event} {_short(data)}".rstrip()
    name = f" {event.obj}" if event.obj else ""
    uid = f" uid {event.uid[:8]}" if event.uid else ""
    version = f" version {event.rv}" if event.rv else ""
    return f"step {event.step}, {seconds(event.t_ns)} s{name}{uid}{version}: {what}"


def _short(data: dict[str, Any]) -> str:
    words = [f"{key}={value}" for key, value in data.items() if isinstance(value, str | int)]
    text = ", ".join(words[:3])
    return text if len(text) <= 80 else text[:79] + "…"
