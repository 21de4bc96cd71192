"""Resizes that this node can never carry out. Upstream: pkg/kubelet/allocation/handlers.go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from controlplane.api import quantity
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import CPU, GUARANTEED, MEMORY, pod_qos
from controlplane.api.tree import Tree
from controlplane.kubelet.allocation.state import PodResources, desired, resizable, same_amounts
from controlplane.kubelet.cm.cpumanager.policy_static import NAME as STATIC_CPU
from controlplane.kubelet.cm.memorymanager.policy_static import NAME as STATIC_MEMORY
from controlplane.kubelet.features import Features
from controlplane.metrics.numbers import Metrics

NO_SWAP: Final = "NoSwap"
_ZERO: Final = quantity.parse("0")


@attrs.frozen
class Feasibility:
    """Knows the node's policies; `swap` tells the swap behaviour of a container."""

    features: Features
    metrics: Metrics
    cpu_policy: str = "none"
    memory_policy: str = "None"
    swap: Callable[[Pod, str], str] = lambda _pod, _container: NO_SWAP

    def objection(self, pod: Pod, allocated: PodResources) -> str:
        """Return the reason why a pod can never get the requested resources; "" when there is none."""
        found = self._objection(pod, allocated)
        if found is None:
            return ""
        detail, message = found
        self.metrics.add("pod_infeasible_resizes_total", reason_detail=detail)
        return message

    def _objection(self, pod: Pod, allocated: PodResources) -> tuple[str, str] | None:
        features = self.features
        if not features.enabled("InPlacePodVerticalScaling"):
            return "feature_gate_off", "InPlacePodVerticalScaling is disabled"
        wanted = desired(pod, features)
        if self._swaps(pod, wanted, allocated):
            message = "In-place resize of containers with swap is not supported."
            return "swap_limitation", message
        if not features.enabled("InPlacePodLevelResourcesVerticalScaling"):
            mine, theirs = wanted.pod_level or {}, allocated.pod_level or {}
            if not same_amounts(mine, theirs):
                message = "InPlacePodLevelResourcesVerticalScaling is disabled"
                return "plr_feature_gate_off", message
        if pod_qos(pod) != GUARANTEED:
            return None
        for policy, static, gate, resource, manager in (
            (self.cpu_policy, STATIC_CPU, "ExclusiveCPUs", CPU, "CPU"),
            (self.memory_policy, STATIC_MEMORY, "ExclusiveMemory", MEMORY, "Memory"),
        ):
            if policy != static or features.enabled(f"InPlacePodVerticalScaling{gate}"):
                continue
            if any(
                _request(wanted, each.name, resource) != _request(allocated, each.name, resource)
                for each in resizable(pod, features)
            ):
                detail = f"guaranteed_pod_{manager.lower()}_manager_static_policy"
                message = (
                    f"Resize is infeasible for Guaranteed Pods alongside {manager} Manager policy "
                    f'"{static}"'
                )
                return detail, message
        return None

    def _swaps(self, pod: Pod, wanted: PodResources, allocated: PodResources) -> bool:
        """Return whether a container would change its memory request in place while it may swap."""
        for each in resizable(pod, self.features):
            policies = {
                policy.resource_name: policy.restart_policy for policy in each.resize_policy
            }
            if policies.get(MEMORY) == "RestartContainer":
                continue
            if _request(wanted, each.name, MEMORY) == _request(allocated, each.name, MEMORY):
                continue
            if self.swap(pod, each.name) != NO_SWAP:
                return True
        return False


def _request(resources: PodResources, container: str, resource: str) -> quantity.Quantity:
    own: Tree = resources.containers.get(container) or {}
    text = (own.get("requests") or {}).get(resource)
    return _ZERO if text is None else quantity.parse(text)
