"""A run at a glance: what ran, what failed, which pods took longest, and how it ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from attrs import Factory, define

from controlplane.logs.pod_lifetimes import PodLifetime, PodLifetimes
from controlplane.logs.reading import Line

SLOWEST = 5


@define
class Actor:
    """The work of one actor."""

    steps: int = 0
    messages: int = 0
    writes: int = 0
    refused: int = 0


@define
class Summary:
    """The contents of `logs summary` for one run; times in virtual seconds."""

    run: str = ""
    header: dict[str, Any] = Factory(dict)
    events: int = 0
    steps: int = 0
    t: float = 0.0
    verdict: str = ""
    reason: str = ""
    actors: dict[str, Actor] = Factory(dict)
    writes: Counter[str] = Factory(Counter)
    refused: Counter[str] = Factory(Counter)
    conflicts: int = 0
    retries: Counter[str] = Factory(Counter)
    faults: Counter[str] = Factory(Counter)
    errors: Counter[str] = Factory(Counter)
    attempts: int = 0
    failed_attempts: int = 0
    pods: dict[str, int] = Factory(dict)
    slowest: list[PodLifetime] = Factory(list)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "run": self.run,
            "header": self.header,
            "events": self.events,
            "steps": self.steps,
            "t": self.t,
            "verdict": self.verdict,
            "reason": self.reason,
            "actors": {
                name: {
                    "steps": each.steps,
                    "messages": each.messages,
                    "writes": each.writes,
                    "refused": each.refused,
                }
                for name, each in self.actors.items()
            },
            "writes": dict(self.writes),
            "refused": dict(self.refused),
            "conflicts": self.conflicts,
            "retries": dict(self.retries),
            "faults": dict(self.faults),
            "errors": dict(self.errors),
            "scheduling": {"attempts": self.attempts, "failed": self.failed_attempts},
            "pods": self.pods,
            "slowest_pods": [each.to_json() for each in self.slowest],
        }


_ERRORS = ("warning", "error")


def summarise(lines: Iterable[Line]) -> Summary:
    """Count a log through, once."""
    told = Summary()
    actors: dict[str, Actor] = told.actors
    lives = PodLifetimes()
    step = 0
    line = None
    for line in lines:
        told.events += 1
        event = line.event
        if not line.level:
            actor = actors.get(line.actor)
            if actor is None:
                actor = actors[line.actor] = Actor()
            actor.steps += 1
            step = line.step
            continue
        if event == "message":
            actor = actors.get(line.actor)
            if actor is not None:
                actor.messages += 1
            continue
        if event == "apiserver.write":
            lives.add(line)
            _count_write(told, line)
        elif event == "scheduler.assumed":
            told.attempts += 1
        elif event == "scheduler.failed":
            told.attempts += 1
            told.failed_attempts += 1
            lives.add(line)
        elif event in ("controller.retry", "controller.dropped"):
            told.retries[line.data.get("controller", line.actor)] += 1
        elif event == "fault":
            told.faults[_fault(line)] += 1
        elif event == "apiserver.removed":
            lives.add(line)
        elif event == "informer.told":
            if line.data.get("kind") == "delete":
                lives.add(line)
        elif event == "verdict":
            told.verdict = line.data.get("verdict", "")
            told.reason = line.data.get("reason", "")
        elif event == "log":
            told.header = dict(line.data)
        elif line.level in _ERRORS:
            told.errors[event] += 1
        step = max(step, line.step)
    if line is not None:
        told.run, told.t = line.run, line.t
    told.steps = step
    told.pods = lives.phases()
    told.slowest = lives.slowest(SLOWEST, told.t)
    return told


def _fault(line: Line) -> str:
    data = line.data
    where = data.get("actor") or "-".join(str(data[end]) for end in ("a", "b") if end in data)
    return f"{data.get('fault', '')} {where}".rstrip()


def _count_write(told: Summary, line: Line) -> None:
    data = line.data
    verb, code = data.get("verb", ""), data.get("code", 0)
    name = data.get("by", "")
    by = told.actors.get(name)
    if by is None and name:  # who is no actor of the run, or one of a log without steps
        by = told.actors[name] = Actor()
    if code < 300:
        told.writes[verb] += 1
        if by is not None:
            by.writes += 1
        return
    told.refused[f"{verb}: {code} {data.get('reason', '')}".rstrip()] += 1
    told.conflicts += code == 409 and data.get("reason") == "Conflict"
    if by is not None:
        by.refused += 1
