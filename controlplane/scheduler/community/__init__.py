"""Plugins of kubernetes-sigs/scheduler-plugins, by their names and arguments there.

They join the registry of a scheduler whose KubeSchedulerConfiguration is read from a file; a scheduler without one
imports nothing of them.
"""

from __future__ import annotations

from controlplane.scheduler.community.capacity_scheduling import CapacityScheduling
from controlplane.scheduler.community.coscheduling import Coscheduling
from controlplane.scheduler.community.network_aware import NetworkOverhead, TopologicalSort
from controlplane.scheduler.community.node_metadata import NodeMetadata
from controlplane.scheduler.community.node_resource_topology import NodeResourceTopologyMatch
from controlplane.scheduler.community.node_resources_allocatable import NodeResourcesAllocatable
from controlplane.scheduler.community.pod_state import PodState
from controlplane.scheduler.community.preemption_toleration import PreemptionToleration
from controlplane.scheduler.community.qos_sort import QOSSort
from controlplane.scheduler.community.sysched import SySched
from controlplane.scheduler.community.trimaran import (
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    Peaks,
    TargetLoadPacking,
)
from controlplane.scheduler.framework.interface import Plugin

__all__ = ["PLUGINS"]

PLUGINS: tuple[type[Plugin], ...] = (
    NodeResourcesAllocatable,
    PodState,
    NodeMetadata,
    QOSSort,
    TargetLoadPacking,
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    Peaks,
    PreemptionToleration,
    Coscheduling,
    CapacityScheduling,
    NodeResourceTopologyMatch,
    NetworkOverhead,
    TopologicalSort,
    SySched,
)
