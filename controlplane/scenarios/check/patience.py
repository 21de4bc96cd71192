"""Time limits: the quiet that makes rest, and the time after which a cluster that is not quiet is never at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.api.tree import is_ready
from controlplane.scenarios.check.timeline import lives, owner_of
from controlplane.scenarios.engine.load import starting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controlplane.scenarios.check.history import Change
    from controlplane.scenarios.check.subject import Subject
    from controlplane.scenarios.engine.run import Run

LOAD: Final = "user/follow"
"""The task that measures what pods use (`engine.load.follow`)."""
__all__ = ["Patience", "is_activity", "patience_of", "something_is_due"]

QUIET_S: Final = 70
"""Longer than the backoffs of controllers and scheduler, four looks of an autoscaler, and the time after which a lost
node is known to be.
"""
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
    """Time limits, in nanoseconds.

    `quiet_ns` is how long nothing must happen until the cluster is at rest if nothing is due, `due_ns` if something is:
    then it would have happened. `horizon_ns` is how long to wait for rest at most.
    """

    quiet_ns: int
    due_ns: int
    horizon_ns: int


def patience_of(subject: Subject, wait_s: float = 0.0) -> Patience:
    """The patience for a configuration; `wait_s` is how long a system beside it waits with what it does."""
    quiet = max(QUIET_S, wait_s + QUIET_S / 2 if wait_s else 0)
    waits = [each.waits_s + LOOKS_S for each in subject.scalers]
    tolerated = [TOLERATED_S, *(_tolerated(each.pod_spec) for each in subject.workloads)]
    due = max(quiet, *waits, max(tolerated) + QUIET_S)
    horizon = max(WINDOWS * quiet, 2 * due, LEAST_HORIZON_S)
    return Patience(round(quiet * SECOND), round(due * SECOND), round(horizon * SECOND))


STABILIZED: Final = ("ScaleDownStabilized", "ScaleUpStabilized", "BackoffDownscale", "BackoffBoth")
"""Reasons why an autoscaler that would change the number of replicas waits."""


def something_is_due(run: Run) -> bool:
    """Return whether something will happen although nothing happens now.

    An autoscaler waits until its window is over, pods are starting or not ready, or pods are on a node with a NoExecute
    taint that they tolerate for a time.
    """
    now = run.cluster.config.epoch_ns + run.world.now
    pods = run.objects("/registry/pods/")
    if any(starting(each.tree, now) for each in pods):
        return True
    for scaler in run.objects("/registry/horizontalpodautoscalers/"):
        for each in (scaler.tree.get("status") or {}).get("conditions") or ():
            if each.get("type") == "AbleToScale" and each.get("reason") in STABILIZED:
                return True
    tainted = {
        node.name: {taint["key"] for taint in taints if taint.get("effect") == "NoExecute"}
        for node in run.objects("/registry/minions/")
        if (taints := (node.tree.get("spec") or {}).get("taints"))
    }
    return any(
        _will_get_ready(pod.tree, tainted)
        or _will_go(pod.tree, tainted.get(_node_of(pod.tree), set()))
        for pod in pods
    )


def _node_of(pod: dict[str, Any]) -> str:
    return (pod.get("spec") or {}).get("nodeName") or ""


def _will_get_ready(pod: dict[str, Any], tainted: Mapping[str, object]) -> bool:
    """Return whether a pod is on a node that works, and is not ready yet."""
    node = _node_of(pod)
    return bool(node) and node not in tainted and lives(pod) and not is_ready(pod)


def _will_go(pod: dict[str, Any], taints: set[str]) -> bool:
    """Return whether a pod is to be evicted for one of these taints when its time is over."""
    if not taints or not lives(pod):
        return False
    return any(
        each.get("tolerationSeconds") is not None and each.get("key") in taints
        for each in pod["spec"].get("tolerations") or ()
    )


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

    A pod was made, bound, got or lost its readiness, ends, or uses another amount of CPU; a workload's spec changed; a
    node's taints did. Pods of Jobs do not count: they end, and CronJobs make them for ever.
    """
    if change.by == LOAD:
        return True
    old, new = change.old, change.new
    if change.resource == "nodes":
        return old is None or new is None or _node(old) != _node(new)
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
