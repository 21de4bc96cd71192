"""Containers in the managers' state that belong to no active pod.

Upstream: removeStaleState of the CPU and the memory manager, pkg/kubelet/cm/containermap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from controlplane.api.pod import Pod
from controlplane.kubelet.cm.requests import containers_of


class ContainerMap:
    """Container ids and what they are instances of."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}
        self._names: dict[str, tuple[Pod, frozenset[str]]] = {}

    def add(self, pod_uid: str, container: str, container_id: str) -> None:
        """An instance of a container."""
        self._known[container_id] = (pod_uid, container)

    def get(self, container_id: str) -> tuple[str, str] | None:
        """(pod uid, container) of an instance, None when it is unknown."""
        return self._known.get(container_id)

    def remove(self, pod_uid: str, container: str) -> None:
        """Forget one instance of a container."""
        for container_id, known in self._known.items():
            if known == (pod_uid, container):
                del self._known[container_id]
                return

    def stale(
        self,
        assignments: Mapping[str, Mapping[str, Any]],
        active_pods: Callable[[], Sequence[Pod]],
    ) -> list[tuple[str, str]]:
        """(pod uid, container) of what is assigned or known and not part of an active pod, in order."""
        if not assignments and not self._known:
            return []
        names = {pod.uid: self._names_of(pod) for pod in active_pods()}
        found: dict[tuple[str, str], None] = {}
        for uid, containers in assignments.items():
            mine = names.get(uid, ())
            for name in containers:
                if name not in mine:
                    found[uid, name] = None
        ordered = dict.fromkeys(sorted(found))
        for uid, name in self._known.values():
            if name not in names.get(uid, ()):
                ordered[uid, name] = None
        if len(self._names) > 2 * len(names):
            self._names = {uid: each for uid, each in self._names.items() if uid in names}
        return list(ordered)

    def _names_of(self, pod: Pod) -> frozenset[str]:
        known = self._names.get(pod.uid)
        if known is None or known[0] is not pod:
            known = (pod, frozenset(each.name for each in containers_of(pod)))
            self._names[pod.uid] = known
        return known[1]
