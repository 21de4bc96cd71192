"""The lives of pods: when each incarnation was created, bound, ready and gone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import define

from controlplane.logs.reading import Line


@define
class PodLifetime:
    """One incarnation of a pod. Times are virtual seconds, None for what did not happen."""

    obj: str
    uid: str
    created: float
    popped: float | None = None
    bound: float | None = None
    running: float | None = None
    ready: float | None = None
    terminating: float | None = None
    gone: float | None = None
    node: str = ""
    phase: str = "Pending"
    attempts: int = 0
    end: float = 0.0
    """The time of the log's end."""

    @property
    def took(self) -> float:
        """From creation to ready, to bound, or, of one that never was, to its end or that of the log."""
        known = (self.ready, self.bound, self.gone)
        until = next((each for each in known if each is not None), max(self.end, self.created))
        return until - self.created

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "obj": self.obj,
            "uid": self.uid,
            "node": self.node,
            "phase": self.phase,
            "attempts": self.attempts,
            "created": self.created,
            "popped": self.popped,
            "bound": self.bound,
            "running": self.running,
            "ready": self.ready,
            "terminating": self.terminating,
            "gone": self.gone,
        }


class PodLifetimes:
    """Told of a run's events, it knows the lives of its pods."""

    def __init__(self) -> None:
        self._now: dict[str, PodLifetime] = {}
        self._by_uid: dict[str, PodLifetime] = {}
        self.all: list[PodLifetime] = []

    def add(self, line: Line) -> None:
        """One more event; those that are not about pods are of no interest."""
        event, obj = line.event, line.obj
        if not obj.startswith("Pod/"):
            return
        life = self._by_uid.get(line.uid) if line.uid else self._now.get(obj)
        if event == "apiserver.write":
            if line.data.get("code", 0) < 300:
                self._written(line, life)
        elif life is None:
            return
        elif event == "apiserver.removed":
            _ended(life, line.t)
        elif event == "scheduler.popped":
            if life.popped is None:
                life.popped = line.t
        elif event == "scheduler.failed":
            life.attempts += 1
        elif event == "informer.told" and line.data.get("kind") == "delete":
            _ended(life, line.t)

    def _written(self, line: Line, life: PodLifetime | None) -> None:
        data, t = line.data, line.t
        verb = data.get("verb", "")
        if verb == "create pods":
            before = self._now.get(line.obj)
            if before is not None:
                _ended(before, t)
            life = self._now[line.obj] = self._by_uid[line.uid] = PodLifetime(line.obj, line.uid, t)
            self.all.append(life)
            return
        if life is None:
            return
        if verb == "create pods/binding":
            life.bound, life.node = t, data.get("node", life.node)
            life.attempts += 1
            return
        phase = data.get("phase")
        if phase:
            life.phase = phase
            if phase == "Running" and life.running is None:
                life.running = t
        if data.get("ready") and life.ready is None:
            life.ready = t
        if data.get("terminating") and life.terminating is None:
            life.terminating = t
        if verb == "delete pods" and not data.get("terminating"):
            _ended(life, t)

    def phases(self) -> dict[str, int]:
        """Return the number of pods by their last phase."""
        return dict(sorted(Counter(life.phase for life in self.all).items()))

    def slowest(self, count: int, end: float) -> list[PodLifetime]:
        """Those that were waited for longest, by the time at which the log ends."""
        for life in self.all:
            life.end = end
        return sorted(self.all, key=lambda life: (-life.took, life.obj))[:count]


def _ended(life: PodLifetime, t: float) -> None:
    """It is gone at the latest now: in logs that do not tell of it, with the first news that it is."""
    if life.gone is None:
        life.gone, life.phase = t, "gone"
