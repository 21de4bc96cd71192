"""The interface of a profile to its plugins: the caches, the evictor, the filters.

Follows `pkg/framework/types` and `pkg/framework/profile/profile.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from attrs import define, field

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.descheduler.args import pod_filter
from controlplane.descheduler.default_evictor import DefaultEvictor
from controlplane.descheduler.evictions import (
    Evicting,
    EvictionError,
    NodeLimitReached,
    PodEvictor,
    TotalLimitReached,
)
from controlplane.descheduler.world import PodFilter, World


@define
class Handle:
    """The handle of one profile."""

    world: World
    evictor: PodEvictor
    default: DefaultEvictor
    profile: str
    filters: list[PodFilter] = field(factory=list)
    """Filter of the plugins of users, besides the default evictor's."""
    pre_eviction_filters: list[PodFilter] = field(factory=list)

    def filter(self, pod: Pod) -> bool:
        """Return whether Filter lets the pod pass."""
        return self.default.filter(pod) and all(lets(pod) for lets in self.filters)

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether PreEvictionFilter lets the pod pass."""
        return self.default.pre_eviction_filter(pod) and all(
            lets(pod) for lets in self.pre_eviction_filters
        )

    def may_go(self, pod: Pod) -> bool:
        """Return whether Filter and PreEvictionFilter let the pod pass."""
        return self.filter(pod) and self.pre_eviction_filter(pod)

    def evictable(self, args: dict[str, Any]) -> Callable[[Pod], bool]:
        """Both filters, and those of the plugin's namespaces and label selector."""
        wanted = pod_filter(args)
        return lambda pod: self.may_go(pod) and wanted(pod)

    def evict(self, pod: Pod, plugin: str) -> Evicting:
        """Evict a pod for a plugin. EvictionError if it was not evicted."""
        yield from self.evictor.evict(pod, self.profile, plugin)

    def evict_each(self, pods: Iterable[Pod], plugin: str) -> Evicting:
        """Evict pods of one node until its limit is reached. TotalLimitReached ends the plugin."""
        for pod in pods:
            try:
                yield from self.evict(pod, plugin)
            except NodeLimitReached:
                return
            except TotalLimitReached:
                raise
            except EvictionError:
                continue


Nodes = list[Node]
