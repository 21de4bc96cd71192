"""Which few events of a run tell how it came to break an invariant.

A log and a run that has just ended are told alike: of either, events have a step, a name, an object and its uid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

__all__ = ["FAULT", "LINES", "TELLING", "chosen", "named_in", "steps_in", "uids_in"]

LINES: Final = 15
"""So many lines tell a violation."""
BEGINNING: Final = 2
"""So many of the first events are told in any case: who is who."""
FAULT: Final = "fault"
"""Faults are told whatever they strike."""
TELLING: Final = frozenset(
    (
        "apiserver.write",
        "informer.told",
        "client.read",
        "scheduler.popped",
        "scheduler.read",
        "scheduler.assumed",
        "scheduler.failed",
        "scheduler.skip",
        "scheduler.preemption",
        "kubelet.admitted",
        "kubelet.rejected",
        "kubelet.pressure",
        "kubelet.evicted",
        "pod.evicted",
    )
)
"""Events that say what was written, heard, read and decided of an object."""
_STEP = re.compile(r"\bstep (\d+)")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]*")
_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


class _Event(Protocol):
    @property
    def step(self) -> int: ...
    @property
    def event(self) -> str: ...
    @property
    def obj(self) -> str | None: ...
    @property
    def uid(self) -> str | None: ...


E = TypeVar("E", bound=_Event)


def uids_in(reason: str) -> set[str]:
    """The uids that a violation names."""
    return set(_UID.findall(reason))


def steps_in(reason: str) -> set[int]:
    """The steps that a violation names."""
    return {int(number) for number in _STEP.findall(reason)}


def named_in(reason: str, events: Iterable[_Event]) -> set[str]:
    """Objects that a violation names, by uid, by key or by name, and all that had those names."""
    uids, words = uids_in(reason), set(_WORD.findall(reason))
    found: set[str] = set()
    for event in events:
        obj = event.obj
        if obj and obj not in found:
            key = obj.partition("/")[2]
            if event.uid in uids or words & {key, obj, key.rpartition("/")[2]}:
                found.add(obj)
    return found


def chosen(events: Sequence[E], room: int, focus: Iterable[int]) -> list[E]:
    """All, or the first ones, which say who is who, faults, and those nearest to the steps that matter.

    Without such steps (`focus`) the last event is what matters.
    """
    if len(events) <= room:
        return list(events)
    steps = tuple(focus) or (events[-1].step,)

    def rank(at: int) -> tuple[bool, bool, int]:
        event = events[at]
        near = min(abs(event.step - step) for step in steps)
        return at >= BEGINNING, event.event != FAULT, near

    return [events[at] for at in sorted(sorted(range(len(events)), key=rank)[:room])]
