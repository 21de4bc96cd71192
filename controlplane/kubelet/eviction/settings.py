"""Thresholds of pressure from the configuration of a node."""

from __future__ import annotations

from typing import Final

import attrs

from controlplane.api.pod_resources import EPHEMERAL_STORAGE, MEMORY
from controlplane.api.quantity import parse
from controlplane.kubelet.config.configuration import KubeletConfiguration, Threshold
from controlplane.kubelet.config.fields import EVICTION_HARD

MEMORY_AVAILABLE: Final = "memory.available"
ALLOCATABLE_MEMORY: Final = "allocatableMemory.available"
INODES: Final = "inodes"
PIDS: Final = "pids"

RESOURCES: Final = {
    MEMORY_AVAILABLE: MEMORY,
    ALLOCATABLE_MEMORY: MEMORY,
    "nodefs.available": EPHEMERAL_STORAGE,
    "nodefs.inodesFree": INODES,
    "imagefs.available": EPHEMERAL_STORAGE,
    "imagefs.inodesFree": INODES,
    "containerfs.available": EPHEMERAL_STORAGE,
    "containerfs.inodesFree": INODES,
    "pid.available": PIDS,
}
"""The resource that runs short when a signal falls below its threshold."""
MEMORY_PRESSURE: Final = "MemoryPressure"
DISK_PRESSURE: Final = "DiskPressure"
PID_PRESSURE: Final = "PIDPressure"
CONDITIONS: Final = {
    MEMORY: MEMORY_PRESSURE,
    EPHEMERAL_STORAGE: DISK_PRESSURE,
    INODES: DISK_PRESSURE,
    PIDS: PID_PRESSURE,
}
"""The node's condition that tells of it."""


@attrs.frozen
class EvictionThreshold:
    """A signal must not fall below `value`; `min_reclaim` more must be free before that is over.

    A soft threshold, one with a grace period, must have been met for so long before a pod goes.
    """

    signal: str
    value: Threshold
    grace_ns: int = 0
    min_reclaim: Threshold | None = None

    @property
    def hard(self) -> bool:
        """Return whether pods go at once."""
        return self.grace_ns == 0

    @property
    def resource(self) -> str:
        """The resource that runs short."""
        return RESOURCES[self.signal]

    @property
    def condition(self) -> str:
        """The node's condition."""
        return CONDITIONS[self.resource]


@attrs.frozen
class EvictionSettings:
    """The thresholds, hard ones first; `kept_back` is the memory (bytes) that pods may not use together."""

    thresholds: tuple[EvictionThreshold, ...]
    transition_ns: int = 300_000_000_000
    max_grace_s: int = 0
    kept_back: int = 0


def default_settings() -> EvictionSettings:
    """Return the settings of a kubelet without configuration."""
    found = []
    for signal, text in EVICTION_HARD.items():
        percent = text.removesuffix("%")
        value = Threshold(parse(text)) if percent == text else Threshold(part=float(percent) / 100)
        found.append(EvictionThreshold(signal, value))
    return EvictionSettings(_with_allocatable(found))


def settings_of(config: KubeletConfiguration) -> EvictionSettings:
    """The settings of a configuration. Upstream: ParseThresholdConfig."""
    reclaim = config.eviction_minimum_reclaim
    found = [
        EvictionThreshold(signal, value, 0, reclaim.get(signal))
        for signal, value in config.eviction_hard.items()
    ]
    found += [
        EvictionThreshold(
            signal, value, config.eviction_soft_grace_period_ns[signal], reclaim.get(signal)
        )
        for signal, value in config.eviction_soft.items()
    ]
    zero = parse("0")
    kept_back = sum(
        each.get(MEMORY, zero).value() for each in (config.kube_reserved, config.system_reserved)
    )
    return EvictionSettings(
        _with_allocatable(found) if "pods" in config.enforce_node_allocatable else tuple(found),
        config.eviction_pressure_transition_period_ns,
        config.eviction_max_pod_grace_period_s,
        kept_back,
    )


def _with_allocatable(found: list[EvictionThreshold]) -> tuple[EvictionThreshold, ...]:
    """With the hard threshold of memory once more, for what all pods may use together."""
    return (
        *found,
        *(
            attrs.evolve(each, signal=ALLOCATABLE_MEMORY)
            for each in found
            if each.signal == MEMORY_AVAILABLE and each.hard
        ),
    )
