"""Invariants of the plugins of scheduler-plugins: gangs are whole, and quotas are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scheduler.community.coscheduling import LABEL

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = ["A_GANG_RUNS_WHOLLY_OR_NOT_AT_ALL", "GROUPS", "members"]

GROUPS: Final = "/registry/scheduling.x-k8s.io/podgroups/"


def members(run: Run) -> dict[tuple[str, str], list[Object[Any]]]:
    """All pods that name a PodGroup, by its namespace and name."""
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
