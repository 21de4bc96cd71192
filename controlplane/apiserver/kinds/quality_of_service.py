"""A pod's quality of service, from its tree. Upstream: pkg/apis/core/helper/qos."""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.recent import by_identity
from controlplane.api.tree import Tree

__all__ = ["qos_class"]


@by_identity
def qos_class(spec: Tree) -> str:
    """Guaranteed, Burstable or BestEffort. Upstream: pkg/apis/core/helper/qos."""
    pod_level = spec.get("resources")
    if pod_level and (pod_level.get("requests") or pod_level.get("limits")):
        return _qos([pod_level])
    containers = [*(spec.get("containers") or ()), *spec.get("initContainers", ())]
    return _qos([container.get("resources") or {} for container in containers])


def _qos(all_resources: list[Tree]) -> str:
    requests: dict[str, quantity.Quantity] = {}
    limits: dict[str, quantity.Quantity] = {}
    guaranteed = True
    for resources in all_resources:
        for name, text in (resources.get("requests") or {}).items():
            if name in {"cpu", "memory"}:
                amount = quantity.parse(text)
                if amount.sign() > 0:
                    requests[name] = requests[name].add(amount) if name in requests else amount
        found = 0
        for name, text in (resources.get("limits") or {}).items():
            if name in {"cpu", "memory"}:
                amount = quantity.parse(text)
                if amount.sign() > 0:
                    found += 1
                    limits[name] = limits[name].add(amount) if name in limits else amount
        if found != 2:
            guaranteed = False
    if not requests and not limits:
        return "BestEffort"
    if guaranteed and len(requests) == len(limits) and all(
        name in limits and limits[name].cmp(amount) == 0 for name, amount in requests.items()
    ):  # fmt: skip
        return "Guaranteed"
    return "Burstable"
