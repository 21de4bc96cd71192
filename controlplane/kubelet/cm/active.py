"""Which containers of the managers' state belong to nobody any more.

Upstream: removeStaleState of the CPU and the memory manager, pkg/kubelet/cm/containermap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from controlplane.api.pod import Pod
from controlplane.kubelet.cm.requests import containers_of


class ContainerMap:
    """Container ids and what they are instances of."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def add(self, pod_uid: str, container: str, container_id: str) -> None:
        """An instance of a container."""
        self._known[container_id] = (pod_uid, container)

    def remove(self, pod_uid: str, container: str) -> None:
        """Forget one instance of a container."""
        for container_id, known in self._known.items():
            if known == (pod_uid, container):
                del self._known[container_id]
                return

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(list(self._known.values()))


def stale(
    assignments: Mapping[str, Mapping[str, Any]],
    containers: ContainerMap,
    active_pods: Callable[[], Sequence[Pod]],
) -> list[tuple[str, str]]:
    """(pod uid, container) of what is assigned or known and not part of an active pod, in order."""
    named = dict.fromkeys(
        (uid, name) for uid in sorted(assignments) for name in sorted(assignments[uid])
    )
    named.update(dict.fromkeys(containers))
    if not named:
        return []
    active = {pod.uid: pod for pod in active_pods()}
    names: dict[str, dict[str, None]] = {}
    found = []
    for uid, name in named:
        pod = active.get(uid)
        if pod is not None:
            if uid not in names:
                names[uid] = dict.fromkeys(each.name for each in containers_of(pod))
            if name in names[uid]:
                continue
        found.append((uid, name))
    return found
