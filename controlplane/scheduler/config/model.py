"""The scheduler's configuration, defaulted and with plugin sets expanded.

Upstream: kube-scheduler `config/v1/types.go`. Reading a KubeSchedulerConfiguration document is
the business of `config_load`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from controlplane.scheduler.framework import args as a
from controlplane.scheduler.framework import names as n

DEFAULT_SCHEDULER_NAME = "default-scheduler"

# (plugin, weight) in the order of the default profile, as multiPoint lists them.
DEFAULT_MULTI_POINT: tuple[tuple[str, int], ...] = (
    (n.SCHEDULING_GATES, 0),
    (n.PRIORITY_SORT, 0),
    (n.NODE_UNSCHEDULABLE, 0),
    (n.NODE_NAME, 0),
    (n.TAINT_TOLERATION, 3),
    (n.NODE_AFFINITY, 2),
    (n.NODE_PORTS, 0),
    (n.NODE_RESOURCES_FIT, 1),
    (n.VOLUME_RESTRICTIONS, 0),
    (n.NODE_VOLUME_LIMITS, 0),
    (n.VOLUME_BINDING, 0),
    (n.VOLUME_ZONE, 0),
    (n.POD_TOPOLOGY_SPREAD, 2),
    (n.INTER_POD_AFFINITY, 2),
    (n.DYNAMIC_RESOURCES, 2),
    (n.DEFAULT_PREEMPTION, 0),
    (n.NODE_RESOURCES_BALANCED_ALLOCATION, 1),
    (n.IMAGE_LOCALITY, 1),
    (n.DEFAULT_BINDER, 0),
    (n.NODE_DECLARED_FEATURES, 0),
)

DEFAULT_ARGS: Mapping[str, Any] = {
    n.DEFAULT_PREEMPTION: a.DefaultPreemptionArgs(),
    n.INTER_POD_AFFINITY: a.InterPodAffinityArgs(),
    n.NODE_AFFINITY: a.NodeAffinityArgs(),
    n.NODE_RESOURCES_BALANCED_ALLOCATION: a.NodeResourcesBalancedAllocationArgs(),
    n.NODE_RESOURCES_FIT: a.NodeResourcesFitArgs(),
    n.POD_TOPOLOGY_SPREAD: a.PodTopologySpreadArgs(),
    n.VOLUME_BINDING: a.VolumeBindingArgs(),
    n.DYNAMIC_RESOURCES: a.DynamicResourcesArgs(),
}


@attrs.frozen
class ProfileConfig:
    """One profile. `plugins` maps an extension point to (plugin, weight) in order."""

    scheduler_name: str = DEFAULT_SCHEDULER_NAME
    percentage_of_nodes_to_score: int | None = None
    plugins: Mapping[str, tuple[tuple[str, int], ...]] | None = None
    """None: every default plugin at every point it implements."""
    args: Mapping[str, Any] = DEFAULT_ARGS
    disabled: Mapping[str, tuple[str, ...]] = attrs.Factory(dict)
    """Extension point, or "multiPoint", -> plugins that are not wanted there ("*": all)."""


@attrs.frozen
class SchedulerConfig:
    """The whole scheduler; durations in seconds as in the document."""

    parallelism: int = 16
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    pod_max_in_unschedulable_pods_seconds: int = 300
    profiles: tuple[ProfileConfig, ...] = (ProfileConfig(),)
