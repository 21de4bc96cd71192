"""The divergence of two runs: the first step that differs, the first decision that differs, and their effects."""

from __future__ import annotations

import json
from collections import deque
from itertools import zip_longest
from typing import Any

from attrs import define

from controlplane.logs.phrases import phrase
from controlplane.logs.reading import Line, RunLog

BEFORE = 5
AFTER = 5
DECISIONS = frozenset(
    (
        "apiserver.write",
        "scheduler.assumed",
        "scheduler.failed",
        "scheduler.preemption",
        "kubelet.admitted",
        "kubelet.rejected",
        "kubelet.evicted",
        "pod.evicted",
        "fault",
        "choice",
        "verdict",
    )
)


@define
class Side:
    """One run at the point of parting: the event that differs, and the decisions that follow."""

    name: str
    event: Line | None
    after: list[Line]
    verdict: str


@define
class Difference:
    """The difference of two runs. `before` are the last decisions that they share; None if all steps are equal."""

    same_events: int
    steps: tuple[Line | None, Line | None]
    before: list[Line]
    sides: tuple[Side, Side]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "same_events": self.same_events,
            "first_step": [None if each is None else as_json(each) for each in self.steps],
            "before": [as_json(each) for each in self.before],
            "decisions": [
                {
                    "run": side.name,
                    "event": None if side.event is None else as_json(side.event),
                    "after": [as_json(each) for each in side.after],
                    "verdict": side.verdict,
                }
                for side in self.sides
            ],
        }


def as_json(line: Line) -> dict[str, Any]:
    """An event for programs."""
    return {
        "step": line.step,
        "t": line.t,
        "actor": line.actor,
        "task": line.task,
        "event": line.event,
        "obj": line.obj,
        "uid": line.uid,
        "rv": line.rv,
        "data": line.data,
        "what": phrase(line) or line.event,
    }


def compare(one: RunLog, other: RunLog) -> Difference | None:
    """The first difference of two runs; None if they are the same, event by event."""
    same = 0
    before: deque[Line] = deque(maxlen=BEFORE)
    for first, second in zip_longest(_run(one), _run(other)):
        if first is None or second is None or not _equal(first, second):
            break
        same += 1
        if first.event in DECISIONS:
            before.append(first)
    else:
        return None
    at = first.step if first is not None else second.step if second is not None else 0
    ahead, behind = _decisions(one, at), _decisions(other, at)
    found: tuple[Line | None, Line | None] = (None, None)
    for pair in zip_longest(ahead, behind):
        if pair[0] is None or pair[1] is None or not _same_decision(*pair):
            found = pair
            break
    sides = tuple(
        Side(log.name, decision, _after(log, decision), _verdict(log))
        for log, decision in zip((one, other), found, strict=True)
    )
    return Difference(same, (first, second), list(before), (sides[0], sides[1]))


def _run(log: RunLog) -> Any:
    """Its events but the first, which says what was run, and the verdict's like."""
    return (line for line in log if line.event != "log")


def _equal(one: Line, other: Line) -> bool:
    return (
        one.step == other.step
        and one.event == other.event
        and one.actor == other.actor
        and one.task == other.task
        and one.t == other.t
        and one.obj == other.obj
        and one.rv == other.rv
        and one.cause == other.cause
        and one.uid == other.uid
        and one.data == other.data
    )


def _decisions(log: RunLog, step: int) -> Any:
    return (
        line
        for line in log.between(step, 1 << 62)
        if line.event in DECISIONS and line.event != "choice"
    )


def _same_decision(one: Line, other: Line) -> bool:
    """Equal but for the step and the version: those move as soon as the schedule does."""
    return (one.event, one.actor, one.obj, _plain(one)) == (
        other.event,
        other.actor,
        other.obj,
        _plain(other),
    )


def _plain(line: Line) -> str:
    kept = {key: value for key, value in line.data.items() if key not in ("based_on", "scores")}
    return json.dumps(kept, sort_keys=True)


def _after(log: RunLog, decision: Line | None) -> list[Line]:
    found: list[Line] = []
    if decision is None:
        return found
    for line in _decisions(log, decision.step):
        if line == decision:
            continue
        found.append(line)
        if len(found) == AFTER:
            break
    return found


def _verdict(log: RunLog) -> str:
    last = log.last()
    if last is None or last.event != "verdict":
        return ""
    return phrase(last)
