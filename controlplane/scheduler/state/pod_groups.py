"""Members of each pod group: unscheduled, assumed, assigned.

Upstream: `pkg/scheduler/backend/cache/podgroupstate.go`. Pods are keyed by UID. The cache keeps the live state of
every group that has a pod; a snapshot has copies of its own, which a group's cycle changes while it tries.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

Key = tuple[str, str]
"""Namespace and name of a group."""


def group_of(pod: Pod) -> Key | None:
    """The group that the pod names, None without one."""
    member = pod.spec.scheduling_group
    return None if member is None else (pod.metadata.namespace, member.pod_group_name)


def not_found(key: Key) -> str:
    """The error of a look at the state of a group without pods."""
    return f"pod group state not found for pod group {key[0]}/{key[1]}"


class PodGroupState:
    """The pods of one group. Terminated and deleting pods count until they are gone."""

    __slots__ = ("all", "assigned", "assumed", "generation", "unscheduled")

    def __init__(self) -> None:
        self.all: dict[str, Pod] = {}
        self.unscheduled: dict[str, None] = {}
        self.assumed: dict[str, Pod] = {}
        self.assigned: dict[str, None] = {}
        self.generation = 0

    def copy(self) -> PodGroupState:
        """An independent copy."""
        copy = PodGroupState()
        copy.all = dict(self.all)
        copy.unscheduled = dict(self.unscheduled)
        copy.assumed = dict(self.assumed)
        copy.assigned = dict(self.assigned)
        copy.generation = self.generation
        return copy

    def add(self, pod: Pod) -> None:
        """A member appeared."""
        uid = pod.metadata.uid
        self.all[uid] = pod
        (self.assigned if pod.spec.node_name else self.unscheduled)[uid] = None

    def update(self, old: Pod, new: Pod) -> None:
        """The object of a member changed; a binding makes it an assigned one."""
        uid = new.metadata.uid
        self.all[uid] = new
        if not old.spec.node_name and new.spec.node_name:
            self.assigned[uid] = None
            self.unscheduled.pop(uid, None)
            self.assumed.pop(uid, None)

    def delete(self, uid: str) -> None:
        """A member is gone."""
        for members in (self.all, self.unscheduled, self.assumed, self.assigned):
            members.pop(uid, None)

    def assume(self, pod: Pod) -> None:
        """A known member has a node in memory. One whose object has a node already is assigned."""
        uid = pod.metadata.uid
        stored = self.all.get(uid)
        if stored is None:
            return
        if stored.spec.node_name:
            self.assigned[uid] = None
        else:
            self.assumed[uid] = pod
        self.unscheduled.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The assumption of a known member is taken back."""
        stored = self.all.get(uid)
        if stored is None:
            return
        self.assumed.pop(uid, None)
        (self.assigned if stored.spec.node_name else self.unscheduled)[uid] = None

    @property
    def scheduled_count(self) -> int:
        """The number of members that are assumed or assigned."""
        return len(self.assumed) + len(self.assigned)

    def scheduled_pods(self) -> Iterator[Pod]:
        """Members that are assigned, then those that are assumed (with their node)."""
        for uid in self.assigned:
            yield self.all[uid]
        yield from self.assumed.values()

    def unscheduled_pods(self) -> list[Pod]:
        """Members that are neither assumed nor assigned, one for each name."""
        found = {pod.metadata.name: pod for pod in (self.all[uid] for uid in self.unscheduled)}
        return list(found.values())


class PodGroupStates:
    """The state of every group that has a pod."""

    __slots__ = ("_adds_unknown", "_generation", "_groups")

    def __init__(self, *, adds_unknown: bool = True) -> None:
        """`adds_unknown`: see `assume`."""
        self._adds_unknown = adds_unknown
        self._groups: dict[Key, PodGroupState] = {}
        self._generation = 0

    def __iter__(self) -> Iterator[Key]:
        return iter(self._groups)

    def get(self, key: Key) -> PodGroupState | None:
        """The state of a group, None if it has no pod."""
        return self._groups.get(key)

    def add(self, pod: Pod) -> None:
        """A pod appeared: unscheduled, or on a node."""
        key = group_of(pod)
        if key is not None:
            self._changed(self._groups.setdefault(key, PodGroupState())).add(pod)

    def update(self, old: Pod, new: Pod) -> None:
        """The object of an unscheduled pod changed."""
        key = group_of(new)
        state = None if key is None else self._groups.get(key)
        if state is not None:
            self._changed(state).update(old, new)

    def remove(self, pod: Pod) -> None:
        """A pod is gone; a group without pods is forgotten."""
        key = group_of(pod)
        state = None if key is None else self._groups.get(key)
        if key is None or state is None:
            return
        self._changed(state).delete(pod.metadata.uid)
        if not state.all:
            del self._groups[key]

    def assume(self, pod: Pod) -> None:
        """A pod has a node in memory.

        Gate here2 (no issue known). A group of which no pod is known any more is made anew for a pod that is
        assumed. Such a pod was deleted while it was tried: nothing will ever take it out again, and once the
        assumption is taken back it counts as assigned, as its object has a node. Fixed, it is left out.
        """
        key = group_of(pod)
        if key is None:
            return
        state = self._groups.get(key)
        if state is None and not self._adds_unknown:
            return
        if state is None:
            state = self._groups[key] = PodGroupState()
            state.all[pod.metadata.uid] = pod
        self._changed(state).assume(pod)

    def forget(self, pod: Pod) -> None:
        """An assumption is taken back."""
        key = group_of(pod)
        state = None if key is None else self._groups.get(key)
        if state is not None:
            self._changed(state).forget(pod.metadata.uid)

    def assume_in_copy(self, pod: Pod) -> None:
        """As `assume`, in a snapshot: a group that it does not know is left out."""
        key = group_of(pod)
        if key is not None and key in self._groups:
            self._groups[key].assume(pod)

    def forget_in_copy(self, pod: Pod) -> None:
        """As `forget`, in a snapshot."""
        key = group_of(pod)
        if key is not None and key in self._groups:
            self._groups[key].forget(pod.metadata.uid)

    def follow(self, live: PodGroupStates) -> None:
        """Become a copy of the live states; groups that did not change are not copied again."""
        mine = self._groups
        for key in [key for key in mine if key not in live._groups]:
            del mine[key]
        for key, state in live._groups.items():
            known = mine.get(key)
            if known is None or known.generation != state.generation:
                mine[key] = state.copy()

    def _changed(self, state: PodGroupState) -> PodGroupState:
        self._generation += 1
        state.generation = self._generation
        return state
