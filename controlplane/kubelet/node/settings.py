"""Settings of a kubelet: its machine, its policies and its feature gates."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from controlplane.api.tree import Tree
from controlplane.kubelet.cm.container_manager import Policies
from controlplane.kubelet.cm.cpumanager.manager import NONE as NO_CPU_POLICY
from controlplane.kubelet.cm.memorymanager.manager import NONE as NO_MEMORY_POLICY
from controlplane.kubelet.cm.topologymanager.policy import NONE as NO_TOPOLOGY_POLICY
from controlplane.kubelet.eviction.settings import EvictionSettings, default_settings
from controlplane.kubelet.features import DEFAULTS, Features
from controlplane.kubelet.machine import Machine


@attrs.frozen
class KubeletSettings:
    """Settings of a kubelet. Without a machine the policies assign no CPUs and no NUMA nodes."""

    machine: Machine | None = None
    policies: Policies = attrs.field(factory=Policies)
    features: Features = DEFAULTS
    eviction: EvictionSettings = attrs.field(factory=default_settings)
    manifests: Mapping[str, Tree] | None = None
    """The initial files of static pods, by name; None: there is no folder of them."""

    @property
    def hands_out(self) -> bool:
        """Return whether any policy gives containers something of their own."""
        policies = self.policies
        return (policies.cpu, policies.memory, policies.topology) != (
            NO_CPU_POLICY,
            NO_MEMORY_POLICY,
            NO_TOPOLOGY_POLICY,
        )
