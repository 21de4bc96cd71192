"""The pool of rejected pods that wait for an event, and of gated pods.

Upstream: `pkg/scheduler/backend/queue/unschedulable_pods.go`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo, pod_key
from controlplane.scheduler.queue.metrics import QueueMetrics

SPREAD = "PodTopologySpread"
Group = tuple[str, ...]
ALWAYS: Group = ()
"""The group that every event looks at."""


class UnschedulablePods:
    """Entries by `namespace/name`, in the order in which they came in."""

    __slots__ = ("_cross_pod", "_group_of", "_groups", "_infos", "_number", "changes", "metrics")

    def __init__(self, metrics: QueueMetrics) -> None:
        self._infos: dict[str, QueuedPodInfo] = {}
        # Pods with the same rejectors form a group, so that an event which interests none of them
        # costs one look at the group and not one at each pod. Numbers keep the order of arrival.
        self._groups: dict[Group, dict[str, int]] = {}
        self._group_of: dict[str, Group] = {}
        self._cross_pod: dict[str, None] = {}
        self._number = 0
        self.changes = 0
        """The number of pods added, replaced and removed so far."""
        self.metrics = metrics

    def __len__(self) -> int:
        return len(self._infos)

    def __contains__(self, key: object) -> bool:
        return key in self._infos

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._infos.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        """The entry under `namespace/name`, or None."""
        return self._infos.get(key)

    def add_or_update(self, info: QueuedPodInfo, event: str) -> None:
        """Put the pod in; only a pod that was not there counts as incoming."""
        self.changes += 1
        key = pod_key(info.pod)
        if key not in self._infos:
            self.metrics.incoming("unschedulable", event)
        self._infos[key] = info
        number = self._leave_group(key)
        if number is None:
            number = self._number = self._number + 1
        group = ALWAYS if info.gated else tuple(sorted(info.rejector_plugins()))
        self._group_of[key] = group
        self._groups.setdefault(group, {})[key] = number
        self.replaced(info)

    def replaced(self, info: QueuedPodInfo) -> None:
        """An entry came in, or holds another pod."""
        key = pod_key(info.pod)
        if SPREAD in info.unschedulable_plugins or info.pod_info.has_affinity:
            self._cross_pod[key] = None
        else:
            self._cross_pod.pop(key, None)

    def _leave_group(self, key: str) -> int | None:
        group = self._group_of.pop(key, None)
        if group is None:
            return None
        members = self._groups[group]
        number = members.pop(key)
        if not members:
            del self._groups[group]
        return number

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take the pod out; None when absent."""
        self.changes += 1
        self._leave_group(key)
        self._cross_pod.pop(key, None)
        return self._infos.pop(key, None)

    def with_cross_pod_rules(self) -> list[QueuedPodInfo]:
        """Pods with an affinity to or from others, or that spreading rejected, in order of arrival.

        The binding of another pod helps no other pods.
        """
        groups, group_of = self._groups, self._group_of
        keys = sorted(self._cross_pod, key=lambda key: groups[group_of[key]][key])
        return [self._infos[key] for key in keys]

    def waiting_for(self, plugins: Collection[str] | None) -> list[QueuedPodInfo]:
        """Pods that one of these plugins rejected, gated pods and pods without rejectors; None: all.

        In order of arrival.
        """
        if plugins is None:
            return list(self._infos.values())
        found = [
            members
            for group, members in self._groups.items()
            if not group or any(plugin in plugins for plugin in group)
        ]
        if not found:
            return []
        if len(found) == 1:
            keys = sorted(found[0], key=found[0].__getitem__)
        else:
            numbers = {key: number for members in found for key, number in members.items()}
            keys = sorted(numbers, key=numbers.__getitem__)
        return [self._infos[key] for key in keys]

    def gated_count(self) -> int:
        """Return the number of entries that a PreEnqueue plugin holds back."""
        return sum(1 for info in self._infos.values() if info.gated)
