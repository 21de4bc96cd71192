"""Invariants of the plugins of scheduler-plugins: gangs are whole, and quotas are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.quantity import Quantity, parse
from controlplane.scenarios.engine.scenario import Invariant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "A_GANG_RUNS_WHOLLY_OR_NOT_AT_ALL",
    "GROUPS",
    "QUOTAS",
    "QUOTAS_ARE_NEVER_OVERDRAWN",
    "members",
]

ZERO: Final = parse("0")
ENDED: Final = ("Succeeded", "Failed")
QUOTAS: Final = "/registry/scheduling.x-k8s.io/elasticquotas/"
GROUPS: Final = "/registry/scheduling.x-k8s.io/podgroups/"


def members(run: Run) -> dict[tuple[str, str], list[Object[Any]]]:
    """All pods that name a PodGroup, by its namespace and name."""
    from controlplane.scheduler.community.coscheduling import LABEL

    found: dict[tuple[str, str], list[Object[Any]]] = {}
    for obj in run.objects("/registry/pods/"):
        name = (obj.metadata.get("labels") or {}).get(LABEL)
        if name:
            found.setdefault((obj.namespace, name), []).append(obj)
    return found


def _halves(run: Run) -> str | None:
    """Name a gang of which fewer pods than it needs have a node, although enough of them are there."""
    found = members(run)
    for group in run.objects(GROUPS):
        least = int((group.tree.get("spec") or {}).get("minMember") or 0)
        pods = found.get((group.namespace, group.name), [])
        bound = sum(1 for pod in pods if pod.view.spec.node_name)
        if 0 < bound < least <= len(pods):
            return f"{bound} of {len(pods)} pods of {group.name} are bound, and it needs {least}"
    return None


A_GANG_RUNS_WHOLLY_OR_NOT_AT_ALL = Invariant(
    "a gang of a PodGroup is bound wholly or not at all once quiet", _halves
)
"""Holds where nothing but the scheduler takes single pods of a gang away."""


def _amounts(tree: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {name: parse(str(each)) for name, each in (tree or {}).items()}


def _used(run: Run, namespace: str, name: str) -> Quantity:
    """Return what the pods of a namespace that have a node, and have not ended, request of a resource."""
    total: Quantity = ZERO
    for obj in run.objects("/registry/pods/"):
        pod: Any = obj.view
        if obj.namespace == namespace and pod.spec.node_name and pod.status.phase not in ENDED:
            for container in pod.spec.containers:
                total = total + container.resources.requests.get(name, ZERO)
    return total


def _revision(run: Run) -> object:
    """Return what changes when a pod or a quota does."""
    return [
        obj.resource_version for path in ("/registry/pods/", QUOTAS) for obj in run.objects(path)
    ]


def _overdrawn(run: Run) -> str | None:
    """Name a namespace that uses more than its quota allows, or all namespaces if they use more than all guarantees."""
    quotas = run.objects(QUOTAS)
    least: dict[str, Quantity] = {}
    used: dict[str, Quantity] = {}
    for quota in quotas:
        spec = quota.tree.get("spec") or {}
        for name, most in _amounts(spec.get("max")).items():
            found = _used(run, quota.namespace, name)
            if not found <= most:
                return f"{quota.namespace} uses {found} of {name}, and its quota allows {most}"
        for name, amount in _amounts(spec.get("min")).items():
            least[name] = least.get(name, ZERO) + amount
            used[name] = used.get(name, ZERO) + _used(run, quota.namespace, name)
    for name, amount in least.items():
        if not used[name] <= amount:
            return f"all use {used[name]} of {name}, and are guaranteed {amount} together"
    return None


QUOTAS_ARE_NEVER_OVERDRAWN = Invariant(
    "no namespace uses more than its ElasticQuota allows, and all no more than is guaranteed",
    _overdrawn,
    ("apiserver",),
    looks_at=_revision,
)
"""Holds where quotas stay as they are, and every pod is scheduled by CapacityScheduling."""
