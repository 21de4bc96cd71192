"""Usage of pods, and the free rest of their node: a kubelet's summary of statistics.

Upstream: makeSignalObservations of pkg/kubelet/eviction/helpers.go. The amounts are given by annotations of
pods, for each container that runs (see `controlplane/kubelet/pod/container_runtime.py`); what the node's own
processes use is nothing, and images take no room. There is one file system, for images and all else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from controlplane.api.pod import Pod
from controlplane.api.pod_resources import EPHEMERAL_STORAGE, MEMORY
from controlplane.api.quantity import Quantity
from controlplane.kubelet.eviction.settings import (
    ALLOCATABLE_MEMORY,
    INODES,
    MEMORY_AVAILABLE,
    PIDS,
)
from controlplane.kubelet.pod import container_runtime as runtime
from controlplane.kubelet.pod.container_runtime import Sandbox

BYTES_PER_INODE: Final = 16 << 10
"""A file system has one inode for this number of bytes (ext4's default)."""
MAX_PIDS: Final = 4_194_304
"""The kernel's limit on a 64-bit machine."""
MEASURED: Final = {
    MEMORY: "memory-usage",
    EPHEMERAL_STORAGE: "ephemeral-storage-usage",
    INODES: "inodes-usage",
    PIDS: "pids-usage",
}
"""The annotation that tells of each resource."""

Usage = Mapping[str, int]
"""By resource: bytes, or how many."""


@attrs.frozen
class PodStats:
    """Usage of each running container of a pod."""

    containers: Mapping[str, Usage]

    def used(self, resource: str) -> int:
        """By all of them."""
        return sum(each[resource] for each in self.containers.values())


@attrs.frozen
class Observation:
    """The free rest of a capacity, in bytes or in pieces."""

    available: int
    capacity: int


Observations = Mapping[str, Observation]
"""By signal; a signal of which nothing is known is missing."""


def uses_anything(pod: Pod) -> bool:
    """Return whether any annotation tells of usage."""
    told = tuple(f"{runtime.PREFIX}{name}" for name in MEASURED.values())
    return any(key.startswith(told) for key in pod.annotations)


def stats_of(pod: Pod, sandbox: Sandbox) -> PodStats | None:
    """The statistics of a pod; None while none of its containers runs."""
    running = sandbox.running()
    if not running:
        return None
    return PodStats(
        {
            each.name: {
                resource: runtime.usage(pod, each.name, name) for resource, name in MEASURED.items()
            }
            for each in running
        }
    )


def observe(
    capacity: Mapping[str, Quantity], kept_back: int, stats: Iterable[PodStats]
) -> Observations:
    """Return the free rest of a node of this capacity."""
    used = dict.fromkeys(MEASURED, 0)
    for each in stats:
        for resource in used:
            used[resource] += each.used(resource)
    found: dict[str, Observation] = {}
    if MEMORY in capacity:
        total = capacity[MEMORY].value()
        found[MEMORY_AVAILABLE] = _left(total, used[MEMORY])
        found[ALLOCATABLE_MEMORY] = _left(total - kept_back, used[MEMORY])
    if EPHEMERAL_STORAGE in capacity:
        total = capacity[EPHEMERAL_STORAGE].value()
        space = _left(total, used[EPHEMERAL_STORAGE])
        inodes = _left(total // BYTES_PER_INODE, used[INODES])
        for name in ("nodefs", "imagefs", "containerfs"):
            found[f"{name}.available"] = space
            found[f"{name}.inodesFree"] = inodes
    found["pid.available"] = _left(MAX_PIDS, used[PIDS])
    return found


def _left(capacity: int, used: int) -> Observation:
    return Observation(max(0, capacity - used), capacity)
