"""The course of each workload over a history: how many pods it wants, has, and has ready, and where they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from controlplane.api.tree import is_ready
from controlplane.scenarios.check.subject import KEEPERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controlplane.api.tree import Tree
    from controlplane.scenarios.check.history import Change

__all__ = ["Course", "Moment", "Placed", "courses_of", "lives", "owner_of", "pending"]

KIND_OF: Final = {
    "deployments": "Deployment",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
    "daemonsets": "DaemonSet",
    "replicationcontrollers": "ReplicationController",
}
DONE: Final = ("Succeeded", "Failed")


@frozen
class Placed:
    """One pod that lives: its node ("" while it waits for one), whether it is ready, and its direct owner."""

    key: str
    node: str
    ready: bool
    owner: str
    """The uid of the object that made it."""


@frozen
class Moment:
    """A workload after a write that concerned it."""

    t_ns: int
    wanted: int
    pods: tuple[Placed, ...]
    cause: Change = field(repr=False)

    @property
    def ready(self) -> int:
        """The number of ready pods."""
        return sum(each.ready for each in self.pods)

    @property
    def state(self) -> tuple[object, ...]:
        """The state that recurs in a cycle: the number of replicas, and the pods of each owner by node."""
        return (self.wanted, tuple(sorted((each.owner, each.node) for each in self.pods)))


@define
class Course:
    """The moments of one workload (Kind/namespace/name), and the ends of its pods."""

    key: str
    moments: list[Moment] = field(factory=list)
    makings: list[Change] = field(factory=list)
    """Creations of its pods."""
    bindings: list[Change] = field(factory=list)
    endings: list[Change] = field(factory=list)
    """Writes by which a pod of it stopped to live: a deletion that began, an eviction, a failure."""

    def at(self, t_ns: int) -> Moment | None:
        """The workload at a time: after the last write until then."""
        found = None
        for each in self.moments:
            if each.t_ns > t_ns:
                break
            found = each
        return found

    def within(self, begin_ns: int, end_ns: int) -> list[Moment]:
        """The moments of a stretch of time."""
        return [each for each in self.moments if begin_ns <= each.t_ns <= end_ns]


def owner_of(tree: Tree) -> Tree | None:
    """The reference to the controller that an object belongs to."""
    references = (tree.get("metadata") or {}).get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def lives(pod: Tree | None) -> bool:
    """Return whether a pod exists, is not about to end, and has not ended."""
    if pod is None or (pod.get("metadata") or {}).get("deletionTimestamp"):
        return False
    return (pod.get("status") or {}).get("phase") not in DONE


def courses_of(changes: Iterable[Change]) -> dict[str, Course]:
    """The course of each workload that has no owner itself, by its key."""
    return _Replay().over(changes)


class _Replay:
    def __init__(self) -> None:
        self._owners: dict[str, str] = {}
        """By the uid of a ReplicaSet, the key of the workload at the top."""
        self._wanted: dict[str, int] = {}
        self._pods: dict[str, dict[str, Placed]] = {}
        self._courses: dict[str, Course] = {}

    def over(self, changes: Iterable[Change]) -> dict[str, Course]:
        for change in changes:
            if change.resource in KIND_OF:
                self._workload(change)
            elif change.resource == "pods":
                self._pod(change)
        return self._courses

    def _workload(self, change: Change) -> None:
        tree = change.new or change.old
        above = owner_of(tree)
        key = f"{KIND_OF[change.resource]}/{change.key}"
        if above is not None:
            namespace = change.key.partition("/")[0]
            key = f"{above['kind']}/{namespace}/{above['name']}"
        self._owners[tree["metadata"].get("uid", "")] = key
        if above is not None or KIND_OF[change.resource] not in KEEPERS:
            return
        wanted = 0
        if change.new is not None and not change.new["metadata"].get("deletionTimestamp"):
            wanted = (change.new.get("spec") or {}).get("replicas", 1)
        if self._wanted.get(key) != wanted:
            self._wanted[key] = wanted
            self._note(key, change)

    def _pod(self, change: Change) -> None:
        tree = change.new or change.old
        above = owner_of(tree)
        key = self._owners.get(above["uid"], "") if above is not None else ""
        if not key or not key.startswith(KEEPERS):
            return
        pods = self._pods.setdefault(key, {})
        course = self._courses.setdefault(key, Course(key))
        before = pods.get(change.key)
        if change.old is None:
            course.makings.append(change)
        if lives(change.new):
            pod = change.new
            node = (pod.get("spec") or {}).get("nodeName") or ""
            now = Placed(change.key, node, is_ready(pod), above["uid"] if above else "")
            if before is not None and node and not before.node:
                course.bindings.append(change)
            if before == now:
                return
            pods[change.key] = now
        else:
            if before is None:
                return
            del pods[change.key]
            course.endings.append(change)
        self._note(key, change)

    def _note(self, key: str, change: Change) -> None:
        course = self._courses.setdefault(key, Course(key))
        pods = tuple(self._pods.get(key, {}).values())
        course.moments.append(Moment(change.t_ns, self._wanted.get(key, 0), pods, change))


def pending(changes: Sequence[Change], until_ns: int) -> Mapping[str, Tree]:
    """The pods that wait for a node at a time, by their keys."""
    found: dict[str, Tree] = {}
    for change in changes:
        if change.t_ns > until_ns:
            break
        if change.resource != "pods":
            continue
        found.pop(change.key, None)
        if lives(change.new) and not (change.new.get("spec") or {}).get("nodeName"):
            found[change.key] = change.new
    return found
