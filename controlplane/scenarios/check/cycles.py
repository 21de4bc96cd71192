"""Cycles: a workload that comes back to the same state again and again, and what happens in between."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from attrs import frozen

from controlplane.scenarios.check.words import actor_of, span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.scenarios.check.history import Change
    from controlplane.scenarios.check.timeline import Course, Moment

__all__ = ["RETURNS", "Cycle", "cycle_in"]

RETURNS: Final = 3
"""The number of returns to one state that make a cycle."""


@frozen
class Cycle:
    """A workload that comes back to one state: since when, what it says in one sentence, and who does what in it."""

    workload: str
    begin_ns: int
    returns: int
    says: str
    lines: tuple[str, ...]


def cycle_in(
    course: Course,
    begin_ns: int,
    end_ns: int,
    reasons: Mapping[str, str] | None = None,
    enough: int = RETURNS,
) -> Cycle | None:
    """The cycle of a workload in a stretch of time; None if it comes back to no state `enough` times."""
    visits = _visits(course, begin_ns, end_ns)
    if not visits:
        return None
    most = max(visits.values(), key=len)
    returns = len(most) - 1
    if returns < enough:
        return None
    first, last = most[0].t_ns, most[-1].t_ns
    lines = tuple(_lines(course, first, last, reasons or {}))
    lasted = f"in {span(last - first)}" if last > first else "at once"
    return Cycle(
        course.key,
        first,
        returns,
        f"{course.key} comes back to the same state {returns} times {lasted}",
        lines,
    )


def _visits(course: Course, begin_ns: int, end_ns: int) -> dict[object, list[Moment]]:
    """The moments at which the workload came to each of its states with all pods it wants."""
    found: dict[object, list[Moment]] = {}
    before: object = None
    for moment in course.within(begin_ns, end_ns):
        state = moment.state
        if state != before:
            found.setdefault(state, []).append(moment)
        before = state
    return found


def _lines(course: Course, begin_ns: int, end_ns: int, reasons: Mapping[str, str]) -> list[str]:
    """The writes of a cycle by component and action, with counts, in the order of their first time."""
    acts: Counter[str] = Counter()
    first: dict[str, int] = {}

    def note(text: str, change: Change, number: int = 1) -> None:
        acts[text] += number
        first.setdefault(text, change.t_ns)

    for change in _between(course.endings, begin_ns, end_ns):
        note(_ending(change, reasons), change)
    for change in _between(course.makings, begin_ns, end_ns):
        node = (change.new.get("spec") or {}).get("nodeName")
        at = f" on node {node}, which its template names" if node else ""
        note(f"{actor_of(change.by)} makes a pod{at}", change)
    for change in _between(course.bindings, begin_ns, end_ns):
        note(f"{actor_of(change.by)} binds it to node {change.new['spec']['nodeName']}", change)
    for moment in course.within(begin_ns + (begin_ns < end_ns), end_ns):
        if moment.cause.resource == "pods":
            continue
        note(f"{actor_of(moment.cause.by)} sets replicas to {moment.wanted}", moment.cause)
    return [f"{text}: {_times(acts[text])}" for text in sorted(acts, key=lambda text: first[text])]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _between(changes: Sequence[Change], begin_ns: int, end_ns: int) -> list[Change]:
    return [
        each
        for each in changes
        if begin_ns < each.t_ns <= end_ns or each.t_ns == begin_ns == end_ns
    ]


def _ending(change: Change, reasons: Mapping[str, str]) -> str:
    pod = change.new or change.old
    node = (pod.get("spec") or {}).get("nodeName") or ""
    at = f" from node {node}" if node else ""
    who = actor_of(change.by)
    status = (change.new or {}).get("status") or {}
    if status.get("phase") == "Failed":
        why = status.get("reason") or "failed"
        return f"{who} refuses a pod on node {node} ({why})"
    for each in status.get("conditions") or ():
        if each.get("type") == "DisruptionTarget" and each.get("status") == "True":
            why = reasons.get(change.key) or each.get("reason") or ""
            return f"{who} evicts a pod{at} ({why})" if why else f"{who} evicts a pod{at}"
    return f"{who} deletes a pod{at}"
