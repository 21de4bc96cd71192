"""How long to wait: how much quiet makes rest, and after how long a cluster that is not quiet is never at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.scenarios.check.timeline import is_ready, owner_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.scenarios.check.history import Change
    from controlplane.scenarios.check.subject import Subject

LOAD: Final = "user/follow"
"""The task that measures what pods use (`engine.load.follow`)."""
__all__ = ["Patience", "is_activity", "patience_of"]

QUIET_S: Final = 60
"""Longer than every backoff of the controllers and the scheduler."""
LOOKS_S: Final = 45
"""Three looks of the HorizontalPodAutoscaler controller."""
TOLERATED_S: Final = 300
"""The seconds for which a pod stays on a node that is not ready, unless it says otherwise."""
UNREACHABLE: Final = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
LEAST_HORIZON_S: Final = 1800
WINDOWS: Final = 8
"""The number of windows after which patience ends."""


@frozen
class Patience:
    """The windows of quiet by what goes on: always, and while nodes are away. In nanoseconds."""

    always_ns: int
    away_ns: int

    def window_ns(self, kinds: Sequence[str]) -> int:
        """How long nothing must happen until the cluster is at rest."""
        away = {"lose", "lose-zone", "taint", "spot"} & set(kinds)
        return max(self.always_ns, self.away_ns) if away else self.always_ns

    def horizon_ns(self, kinds: Sequence[str]) -> int:
        """How long to wait for rest at most."""
        return max(WINDOWS * self.window_ns(kinds), LEAST_HORIZON_S * SECOND)


def patience_of(subject: Subject, periods_s: Sequence[float]) -> Patience:
    """The patience for a configuration; `periods_s` are the periods of systems that look by themselves."""
    waits = [each.waits_s + LOOKS_S for each in subject.scalers]
    always = max([QUIET_S, *waits, *(period + QUIET_S / 2 for period in periods_s)])
    tolerated = [TOLERATED_S, *(_tolerated(each.pod_spec) for each in subject.workloads)]
    return Patience(round(always * SECOND), (max(tolerated) + QUIET_S) * SECOND)


def _tolerated(pod_spec: dict[str, Any]) -> int:
    """The longest time for which pods ask to stay on a node that has a NoExecute taint."""
    times = [
        int(each["tolerationSeconds"])
        for each in pod_spec.get("tolerations") or ()
        if each.get("tolerationSeconds") is not None
    ]
    return min(max(times, default=0), 3600)


def is_activity(change: Change) -> bool:
    """Return whether a write says that the cluster is not at rest.

    A pod was made, bound, got or lost its readiness, or ends; a workload's spec changed; a node's taints did. Pods of
    Jobs do not count: they end, and CronJobs make them for ever.
    """
    if change.by == LOAD:
        return False
    old, new = change.old, change.new
    if change.resource == "nodes":
        return old is not None and new is not None and _node(old) != _node(new)
    if change.resource != "pods":
        return (old or {}).get("spec") != (new or {}).get("spec")
    owner = owner_of(new or old)
    if owner is not None and owner["kind"] == "Job":
        return False
    return old is None or new is None or _pod(old) != _pod(new)


def _node(tree: dict[str, Any]) -> tuple[Any, ...]:
    spec = tree.get("spec") or {}
    taints = [(each.get("key"), each.get("effect")) for each in spec.get("taints") or ()]
    return spec.get("unschedulable"), taints, is_ready(tree)


def _pod(tree: dict[str, Any]) -> tuple[Any, ...]:
    spec, status = tree.get("spec") or {}, tree.get("status") or {}
    ends = tree["metadata"].get("deletionTimestamp") is not None
    return spec.get("nodeName"), status.get("phase"), is_ready(tree), ends
