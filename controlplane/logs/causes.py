"""Backwards from a step: which message or wake-up led to it, and what led to that."""

from __future__ import annotations

from typing import Any, Protocol

from attrs import evolve, frozen

from controlplane.logs.phrases import phrase
from controlplane.logs.reading import Line

HOPS = 12
"""So far back a chain goes unless asked for more."""
_SAID = 3
"""The number of events shown of a step."""


class Steps(Protocol):
    """A log that can be read by step."""

    def at(self, step: int) -> list[Line]:
        """The events of one step: the step itself first."""
        ...


@frozen
class Hop:
    """One step of a causal chain: its task, the point from which it ran, its cause, and its effects."""

    step: int
    t: float
    actor: str
    task: str
    point: str
    by: str
    did: tuple[str, ...]

    @property
    def what(self) -> str:
        """In one line."""
        did = "; ".join(self.did) or self.point
        return f"{did} ({self.by})" if self.by else did

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "step": self.step,
            "t": self.t,
            "actor": self.actor,
            "task": self.task,
            "point": self.point,
            "by": self.by,
            "did": list(self.did),
        }


def chain(log: Steps, step: int, hops: int = HOPS, about: str = "") -> list[Hop]:
    """Return the causal chain of a step, the step itself first; consecutive steps of one task are one hop.

    `about` is the object that the first one is phrase of, if it did more.
    """
    found: list[Hop] = []
    while step > 0:
        lines = log.at(step)
        if not lines:
            break
        hop, cause = _hop(lines, about)
        if (
            found
            and (found[-1].actor, found[-1].task) == (hop.actor, hop.task)
            and not found[-1].by
        ):
            found[-1] = _joined(found[-1], hop)
        elif len(found) == hops:
            break
        else:
            found.append(hop)
        if not cause or cause >= step:
            break
        step, about = cause, ""
    return found


def _joined(later: Hop, earlier: Hop) -> Hop:
    """Two steps of a task as one: what the later one says, led to by what led to the earlier one."""
    by = earlier.by
    waited = later.t - earlier.t
    if waited > 0 and not by:
        by = f"after {waited:g}s"
    did = later.did or earlier.did
    return evolve(later, by=by, did=did)


def _hop(lines: list[Line], about: str) -> tuple[Hop, int]:
    """One step, and the step that led to it: that of the message it took, else of the task that woke it."""
    first = lines[0]
    cause = first.cause[0] if first.is_step and first.cause else 0
    by = ""
    did: list[str] = []
    heard: list[str] = []
    for line in lines:
        if line.event == "message" and line.cause:
            cause = line.cause[0]
            by = f"{line.data.get('message', 'a message')} from {line.data.get('from', '?')}"
        elif line.level and line.event != "message" and (not about or about in (line.obj, "")):
            said = phrase(line)
            kept = heard if line.level == "trace" else did
            if said and said not in kept:
                kept.append(said)
    did = did or heard  # what it read matters where it did nothing
    if len(did) > _SAID:
        did = [*did[:_SAID], f"and {len(did) - _SAID} more"]
    point = first.event if first.is_step else ""
    return Hop(first.step, first.t, first.actor, first.task, point, by, tuple(did)), cause
