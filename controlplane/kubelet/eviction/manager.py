"""The eviction manager: thresholds that are met, since when, and the node's conditions for them.

Upstream: synchronize and Admit of pkg/kubelet/eviction/eviction_manager.go. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from controlplane.api.constraints import Taint
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import BEST_EFFORT, pod_qos
from controlplane.api.taints import NO_SCHEDULE, tolerated
from controlplane.kubelet.eviction.settings import (
    ALLOCATABLE_MEMORY,
    MEMORY_AVAILABLE,
    MEMORY_PRESSURE,
    EvictionSettings,
    EvictionThreshold,
)
from controlplane.kubelet.eviction.stats import Observation, Observations
from controlplane.kubelet.pod.preemption import is_critical

PERIOD_S: Final = 10
EVICTED: Final = "Evicted"
_MEMORY_TAINT: Final = Taint(key="node.kubernetes.io/memory-pressure", effect=NO_SCHEDULE)
_MEMORY_FIRST: Final = (MEMORY_AVAILABLE, ALLOCATABLE_MEMORY)


class EvictionManager:
    """The memory of one kubelet's eviction manager; lost with the process."""

    def __init__(self, settings: EvictionSettings) -> None:
        self._settings = settings
        self._first: dict[EvictionThreshold, int] = {}
        """Since when each threshold that is met has been seen to be."""
        self._met: tuple[EvictionThreshold, ...] = ()
        """Those for which pods go; they stay until the minimum is reclaimed."""
        self._last: dict[str, int] = {}
        """The time at which each condition was observed last."""
        self.conditions: tuple[str, ...] = ()
        """The node's pressure conditions: a condition stays for the transition period."""

    def _seen(self, observed: Observations) -> tuple[EvictionThreshold, ...]:
        """The thresholds that are met, whatever their grace period, or not yet over."""
        found = [each for each in self._settings.thresholds if _is_met(each, observed, False)]
        found += [each for each in self._met if each not in found and _is_met(each, observed, True)]
        return tuple(found)

    def finds_other(self, observed: Observations) -> bool:
        """Return whether a pass would see other thresholds met than the last one."""
        return set(self._seen(observed)) != self._first.keys()

    @property
    def must_reclaim(self) -> bool:
        """Return whether pods are to go, as the last pass had it."""
        return bool(self._met)

    def synchronize(self, observed: Observations, now: int) -> tuple[EvictionThreshold, ...]:
        """A pass: the thresholds for which a pod goes now, those of memory first.

        Of several others upstream takes any.
        """
        before = now - PERIOD_S * 1_000_000_000
        for each in self._first:  # passes were left out as long as they would have seen the same
            self._last[each.condition] = max(self._last[each.condition], before)
        seen = self._seen(observed)
        self._first = {each: self._first.get(each, now) for each in seen}
        self._last |= {each.condition: now for each in seen}
        self.conditions = tuple(
            kind for kind, at in self._last.items() if now - at < self._settings.transition_ns
        )
        self._met = tuple(each for each, at in self._first.items() if now - at >= each.grace_ns)
        memory = tuple(each for each in self._met if each.signal in _MEMORY_FIRST)
        return memory or self._met

    def due(self, now: int) -> int | None:
        """Return the time at which a pass finds something although nothing has changed: a grace or transition period
        ends.
        """
        observed = {each.condition for each in self._first}
        times = [at + each.grace_ns for each, at in self._first.items() if each not in self._met]
        times += [
            self._last[kind] + self._settings.transition_ns
            for kind in self.conditions
            if kind not in observed
        ]
        return min((max(at, now + 1) for at in times), default=None)

    def objection(self, pod: Pod) -> str:
        """Return the reason why a pod is rejected under the present pressure; "" if it is not."""
        conditions = self.conditions
        if not conditions or is_critical(pod):
            return ""
        if conditions == (MEMORY_PRESSURE,) and (
            pod_qos(pod) != BEST_EFFORT or tolerated(pod.spec.tolerations, _MEMORY_TAINT)
        ):
            return ""
        return f"The node had condition: [{' '.join(conditions)}]. "


def _is_met(threshold: EvictionThreshold, observed: Observations, reclaim: bool) -> bool:
    found = observed.get(threshold.signal)
    if found is None:
        return False
    wanted = threshold.value.of_whole(found.capacity)
    if reclaim and threshold.min_reclaim is not None:
        wanted += threshold.min_reclaim.of_whole(found.capacity)
    return wanted > found.available


def met_info(
    resource: str, thresholds: Iterable[EvictionThreshold], observed: Observations
) -> tuple[EvictionThreshold, Observation] | None:
    """The first threshold of a resource with an observation, and the observation."""
    for each in thresholds:
        found = observed.get(each.signal)
        if each.resource == resource and found is not None:
            return each, found
    return None
