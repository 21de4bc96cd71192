"""The weights of events in the history of a violation, and the heaviest of many."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from attrs import define

from controlplane.logs.reading import Line

__all__ = ["FAULT", "Heaviest", "Weighed", "chosen", "weight_of"]

FAULT: Final = "fault"
KEPT: Final = 3000
"""The number of heaviest events that are kept while a log is read."""
OFTEN: Final = 3
"""The number of repetitions from which an event is shown twice: the first time and the last."""
_EVENTS: Final[Mapping[str, float]] = {
    "fault": 60,
    "scheduler.expired": 55,
    "scheduler.skip": 48,
    "scheduler.preemption": 48,
    "kubelet.assigned": 46,
    "election.leading": 45,
    "csi.call": 44,
    "scheduler.group": 43,
    "scheduler.assumed": 42,
    "controller.retry": 40,
    "reflector.error": 24,
    "scheduler.failed": 38,
    "scheduler.gated": 36,
    "kubelet.admitted": 30,
    "kubelet.worker": 28,
    "kubelet.container": 26,
    "kubelet.heard": 10,
    "scheduler.popped": 20,
    "kubelet.synced": 8,
    "user.refused": 10,
    "informer.told": 8,
    "scheduler.read": 6,
    "client.read": 5,
    "client.connected": 4,
    "pod.written": 4,
    "client.listed": 3,
    "informer.synced": 3,
    "informer.read": 2,
    "scheduler.believed": 0,
    "choice": 0,
    "log": 0,
    "task": 0,
    "verdict": 0,
    "controller.popped": 0,
    "apiserver.changed": 0,
    "apiserver.removed": 0,
}
_LEVELS: Final = {"trace": 0.0, "debug": 5.0, "info": 40.0, "warning": 45.0, "error": 55.0}
"""The weights of events without a weight of their own, by level."""
READS: Final = frozenset(("get", "list", "watch"))
_READ, _FAILED_READ = 4.0, 30.0
_BEGINS: Final = 12.0
_READ_OF_ANOTHER: Final = 60.0
_TWO_AS_ONE: Final = 55.0
_CREATE, _REFUSED, _CHANGE, _STATUS, _DECISION = 44.0, 44.0, 34.0, 28.0, 50.0
_BY_A_USER: Final = 12.0
_HELD: Final = 8.0
"""The additional weight of a change of finalizers: they decide whether an object may be deleted."""


def weight_of(line: Line, *, by_a_user: bool = False, fields: Sequence[str] = ()) -> float:
    """Return the weight of an event, at least 0; for a write its author and the changed fields count."""
    data = line.data
    if line.event == "apiserver.write":
        return _write(data, by_a_user, fields)
    if line.event == "apiserver.audited":
        return _request(data, by_a_user)
    if line.event == "scheduler.read" and data.get("popped") != line.uid:
        return _READ_OF_ANOTHER
    if line.event == "informer.told" and "was" in data:
        return _TWO_AS_ONE
    if line.event == "kubelet.worker" and data.get("phase") == "sync":
        return _BEGINS
    found = _EVENTS.get(line.event, _LEVELS.get(line.level, 0.0))
    if line.event == "informer.told" and data.get("kind") == "delete":
        found += 8
    if line.event == "csi.call" and data.get("code") != "OK":
        found += 6
    return found


def _write(data: Mapping[str, Any], by_a_user: bool, fields: Sequence[str]) -> float:
    verb = str(data.get("verb", ""))
    if data.get("code", 0) >= 400:
        found = _REFUSED
    elif verb.startswith("delete ") or verb.endswith(("/binding", "/eviction", "/resize")):
        found = _DECISION
    elif verb.startswith("create "):
        found = _CREATE
    else:
        found = _STATUS if verb.endswith("/status") else _CHANGE
    if any(field.startswith("metadata.finalizers") for field in fields):
        found += _HELD
    if data.get("code", 0) >= 400:
        by_a_user = False  # a refusal moved nothing
    return found + _BY_A_USER * by_a_user


def _request(data: Mapping[str, Any], by_a_user: bool) -> float:
    """Return the weight of a read; writes have an event of their own."""
    if data.get("verb") not in READS:
        return 0.0
    if by_a_user:
        return _READ
    return _FAILED_READ if data.get("code", 0) >= 400 else _READ


@define
class Weighed:
    """An event with what it weighs; of those that say the same two at most are told."""

    line: Line
    weight: float
    says: Hashable
    text: str = ""
    again: int = 0
    """The number of repetitions between this event and the last, which is shown as well."""
    place: int = 0
    near: bool = True
    """False if it is about none of the objects that the violation is about."""


class Heaviest:
    """The heaviest events of those that it is told of, as many as `KEPT`."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Weighed]] = []
        self._count = 0
        self.overflowed = False
        """True if there were more."""

    def takes(self, weight: float) -> bool:
        """Return whether an event of this weight would be kept."""
        if len(self._heap) < KEPT or weight > self._heap[0][0]:
            return True
        self.overflowed = True
        return False

    def add(self, found: Weighed) -> None:
        """One more, in the order of the run."""
        self._count += 1
        found.place = self._count
        item = (found.weight, -self._count, found)
        if len(self._heap) < KEPT:
            heapq.heappush(self._heap, item)
        else:
            self.overflowed = True
            heapq.heappushpop(self._heap, item)

    def all(self) -> list[Weighed]:
        """Those that were kept, in the order of the run."""
        return sorted((found for _, _, found in self._heap), key=lambda each: each.place)


def chosen(found: Sequence[Weighed], room: int) -> list[Weighed]:
    """The heaviest, as many as there is room for, in their order; what repeats is told twice."""
    groups: dict[Hashable, list[Weighed]] = {}
    for each in found:
        groups.setdefault(each.says, []).append(each)
    kept: list[Weighed] = []
    for group in groups.values():
        if len(group) < OFTEN:
            kept += group
        else:
            group[0].again = len(group) - 2
            kept += (group[0], group[-1])
    heaviest = sorted(kept, key=lambda each: (-each.weight, each.place))[:room]
    return sorted(heaviest, key=lambda each: each.place)
