"""The options of the autoscaler, with the defaults of its flags. Times are nanoseconds.

Upstream: `config/autoscaling_options.go`, `config/flags/flags.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from controlplane.autoscaler.balancing import Ratios
from controlplane.autoscaler.groups import NodeGroup

SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Which pods keep a node from being removed."""

    system_pods: bool = True
    local_storage: bool = True
    custom_controllers: bool = True
    min_replicas: int = 0
    system_pod_timeout: int = HOUR


@dataclass(frozen=True, slots=True)
class Options:
    """Flags of the autoscaler; limits are pairs of least and most by resource."""

    utilization_threshold: float = 0.5
    gpu_utilization_threshold: float = 0.5
    unneeded_time: int = 10 * MINUTE
    unready_time: int = 20 * MINUTE
    provision_time: int = 15 * MINUTE
    startup_time: int = 15 * MINUTE
    ignore_daemon_sets_utilization: bool = False
    ignore_mirror_pods_utilization: bool = False
    scale_down_enabled: bool = True
    scale_down_unready: bool = True
    delay_after_add: int = 10 * MINUTE
    delay_after_delete: int = 0
    delay_after_failure: int = 3 * MINUTE
    recheck_unremovable: int = 5 * MINUTE
    parallelism: int = 10
    drain_parallelism: int = 1
    max_nodes: int = 0
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unready_percentage: float = 45.0
    unready_count: int = 3
    balance_similar: bool = False
    enforce_min_size: bool = False
    expanders: tuple[str, ...] = ("least-waste",)
    expendable_cutoff: int = -10
    delete_delay_after_taint: int = 5 * SECOND
    new_pod_delay: int = 0
    soft_taints: int = 10
    """The number of nodes whose soft taint is changed in one loop."""
    most_per_scale_up: int = 1000
    backoff: tuple[int, int, int] = (5 * MINUTE, 30 * MINUTE, 3 * HOUR)
    """Backoff of a group after failures: the first, the longest, and the time after which it is forgotten."""
    ratios: Ratios = field(default_factory=Ratios)
    ignored_labels: tuple[str, ...] = ()
    deletions: DeleteOptions = field(default_factory=DeleteOptions)

    def utilization_threshold_of(self, group: NodeGroup, gpu: bool) -> float:
        """Return the share of use up to which a node of a group counts as unneeded."""
        own = group.options
        if gpu:
            return _or(own.gpu_utilization_threshold, self.gpu_utilization_threshold)
        return _or(own.utilization_threshold, self.utilization_threshold)

    def removal_time_of(self, group: NodeGroup, ready: bool) -> int:
        """Return the time for which a node of a group must be unneeded before it is removed."""
        own = group.options
        if ready:
            return _or(own.unneeded_time, self.unneeded_time)
        return _or(own.unready_time, self.unready_time)

    def provision_time_of(self, group: NodeGroup) -> int:
        """Return the time that a new node of a group may take to register."""
        return _or(group.options.provision_time, self.provision_time)

    def startup_time_of(self, group: NodeGroup) -> int:
        """Return the time that a registered node of a group may take to become ready."""
        return _or(group.options.startup_time, self.startup_time)

    def ignores_daemon_sets(self, group: NodeGroup) -> bool:
        """Return whether pods of DaemonSets do not count as use of a node of a group."""
        return _or(
            group.options.ignore_daemon_sets_utilization, self.ignore_daemon_sets_utilization
        )


def _or(own: V | None, common: V) -> V:
    return common if own is None else own
