"""Objects related to those that a violation names: the writes of one sync belong together.

A sync is what a task does between two keys of its queue, or two messages.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from attrs import define, field

from controlplane.logs.reading import Line
from controlplane.logs.violation_objects import NOISE, OTHER, ViolationObjects

__all__ = ["Walk"]

FORGOTTEN: Final = 50_000
"""The number of steps for which the sender of a request is remembered."""
_DECISIONS: Final = frozenset(
    ("kubelet.rejected", "kubelet.evicted", "kubelet.fatal", "kubelet.pressure")
)
_LISTENING: Final = frozenset(
    ("informer.told", "informer.synced", "controller.popped", "kubelet.admitted", "kubelet.synced")
)
"""The events of processes that follow objects."""
_READS: Final = frozenset(("informer.read", "client.read", "scheduler.read", "scheduler.popped"))


@define
class Sync:
    """The reads and writes of a task since it took its current item."""

    read: set[str] = field(factory=set)
    written: set[str] = field(factory=set)


class Walk:
    """The first pass over a log: the relevant objects, the users, and whether the cluster had settled."""

    def __init__(self, scene: ViolationObjects) -> None:
        self.scene = scene
        self.actors: set[str] = set()
        """The processes that decided about what is named, or that are named themselves."""
        self.settled = False
        self.fields: dict[tuple[str, int], list[str]] = {}
        """The changed fields of relevant objects, by object and version."""
        self.read_anew: set[int] = set()
        """The steps in which the scheduler tells in its own words what it read."""
        self.removed: set[tuple[str, int]] = set()
        """The writes with which an object went, by object and version."""
        self._known: set[str] = set()
        self._writers: dict[str, dict[str, None]] = {}
        """The objects that each actor wrote."""
        self._listeners: set[str] = set()
        self._turns: dict[tuple[str, str], Sync] = defaultdict(Sync)
        self._tasks: dict[int, tuple[str, str]] = {}
        self._older: dict[int, tuple[str, str]] = {}
        self._asked = 0

    def users(self) -> frozenset[str]:
        """Return the actors that write but never watch: users, and actors in their place."""
        return frozenset(self._writers.keys() - self._listeners)

    def written_by_users(self) -> frozenset[str]:
        """Return the objects that users wrote, without nodes and kinds that only report."""
        return frozenset(
            obj
            for user in sorted(self.users())
            for obj in self._writers[user]
            if obj.partition("/")[0] not in NOISE and not obj.startswith("Node/")
        )

    def meet(self, line: Line) -> None:
        """One more event."""
        event = line.event
        if line.is_step:
            self._step(line)
            return
        if line.obj:
            self.scene.meet(line.obj, line.uid)
        if line.actor not in self._known:
            self._known.add(line.actor)
            if self.scene.names_actor(line.actor):
                self.actors.add(line.actor)
        if event in _DECISIONS and line.obj in self.scene.about:
            self.actors.add(line.actor)
        if event == "message":
            self._asked = line.cause[0] if line.cause else 0
            self._turns.pop((line.actor, line.task), None)
        elif event in _LISTENING:
            self._listeners.add(line.actor)
            if event == "controller.popped":
                self._turns.pop((line.actor, line.task), None)
        elif event == "verdict" and line.data.get("verdict") == "quiescent":
            self.settled = True
        elif event == "apiserver.write":
            self._written(line)
        elif event == "apiserver.removed" and line.rv is not None:
            self.removed.add((line.obj, line.rv))
        elif event == "apiserver.changed" and line.rv is not None:
            if self.scene.of(line.obj) > OTHER:
                self.fields[line.obj, line.rv] = line.data.get("fields", [])
        if event == "scheduler.popped":
            self._turns.pop((line.actor, line.task), None)
        if event in _READS:
            self._read(line)
        if event == "scheduler.preemption":
            self._preempts(line)

    def _preempts(self, line: Line) -> None:
        """Preemptor and victims have to do with each other."""
        victims = [f"Pod/{victim}" for victim in line.data.get("victims", ())]
        if line.obj in self.scene.about:
            for victim in victims:
                self.scene.relate(victim)
        elif not self.scene.about.isdisjoint(victims):
            self.scene.relate(line.obj)

    def _step(self, line: Line) -> None:
        if len(self._tasks) >= FORGOTTEN:
            self._tasks, self._older = {}, self._tasks
        self._tasks[line.step] = (line.actor, line.task)
        self._asked = line.cause[0] if line.cause else 0

    def _read(self, line: Line) -> None:
        if line.event == "scheduler.read":
            self.read_anew.add(line.step)
        obj = line.obj or self.scene.missed(line.data.get("resource", ""), line.data.get("key", ""))
        sync = self._turns[line.actor, line.task]
        sync.read.add(obj)
        if obj in self.scene.about:
            self._relate(obj, sync.written)

    def _written(self, line: Line) -> None:
        self._writers.setdefault(line.data.get("by", ""), {})[line.obj] = None
        sender = self._tasks.get(self._asked) or self._older.get(self._asked)
        if sender is None or sender[0] not in self._listeners or line.obj.startswith("Node/"):
            return  # what a user writes next has nothing to do with what it wrote before
        sync = self._turns[sender]
        sync.written.add(line.obj)
        for named in self.scene.about & (sync.read | sync.written):
            self._relate(named, sync.written)

    def _relate(self, named: str, written: set[str]) -> None:
        """Relate the writes of a named object's sync to it, except other objects of its kind."""
        kind = named.partition("/")[0]
        for each in written:
            if each.partition("/")[0] != kind:
                self.scene.relate(each)
