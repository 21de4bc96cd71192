"""Quality of service of a pod. Upstream: pkg/apis/core/helper/qos."""

from __future__ import annotations

from controlplane.api import quantity
from controlplane.api.pod_resources import quality_of_service
from controlplane.api.quantity import Quantity
from controlplane.api.tree import Tree
from controlplane.sharing.memory import by_identity

__all__ = ["qos_class"]

_COUNTING = ("cpu", "memory")


@by_identity
def qos_class(spec: Tree) -> str:
    """Guaranteed, Burstable or BestEffort; by the pod's own resources where it has some, even if they are empty."""
    whole = spec.get("resources")
    if whole is not None:
        return quality_of_service([_part(whole)])
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    return quality_of_service(_part(container.get("resources") or {}) for container in containers)


def _part(resources: Tree) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    return _parsed(resources.get("requests")), _parsed(resources.get("limits"))


def _parsed(texts: Tree | None) -> dict[str, Quantity]:
    return {name: quantity.parse(text) for name, text in (texts or {}).items() if name in _COUNTING}
