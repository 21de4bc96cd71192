"""Invariants of clusters whose size changes: pods leave before their node, capacity is neither lost nor fought over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.tree import is_ready
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import PODS, stored_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.tree import Tree
    from controlplane.autoscaler.loops.cloud import CloudProbe
    from controlplane.scenarios.engine.run import Run

__all__ = [
    "AT_REST_GROUPS_HAVE_THEIR_NODES",
    "AT_REST_NO_POD_WAITS_FOR_A_NODE",
    "PODS_LEAVE_BEFORE_THEIR_NODE",
    "enough_stay_ready",
    "the_size_settles",
]

CLOUD: Final = "cloud"
_NODES: Final = "/registry/minions/"
_ENDED: Final = ("Succeeded", "Failed")


def _probe(run: Run) -> CloudProbe:
    found: CloudProbe = run.cluster.beside[CLOUD]
    return found


def _pods(run: Run) -> Iterator[Tree]:
    for obj in run.objects(PODS):
        if (obj.tree.get("status") or {}).get("phase") not in _ENDED:
            yield obj.tree


def _moves(pod: Tree) -> bool:
    """Return whether a drain evicts a pod: it is of no DaemonSet, and not on its way out."""
    meta = pod["metadata"]
    owners = meta.get("ownerReferences") or ()
    daemon = any(each["kind"] == "DaemonSet" for each in owners)
    return not daemon and not meta.get("deletionTimestamp")


def _killed(run: Run) -> str | None:
    """Name a pod on a node whose machine was deleted on request."""
    deleted = dict.fromkeys(_probe(run).deleted)
    for pod in _pods(run) if deleted else ():
        node = (pod.get("spec") or {}).get("nodeName")
        if node in deleted and _moves(pod):
            name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            return f"{name} is on {node}, whose machine was deleted on request"
    return None


PODS_LEAVE_BEFORE_THEIR_NODE = Invariant(
    "no node is deleted with pods on it",
    _killed,
    (CLOUD, "apiserver"),
    looks_at=lambda run: (len(_probe(run).deleted), stored_pods(run)),
)


def _missing(run: Run) -> str | None:
    """Name a group whose target, instances and Nodes differ."""
    fleet = _probe(run).fleet
    nodes = {obj.name for obj in run.objects(_NODES)}
    for group in () if fleet is None else fleet.describe().groups:
        names = [each.id.partition("//")[2] for each in group.instances]
        if group.target != len(names):
            return f"group {group.name} is to have {group.target} instances, and has {len(names)}"
        for name in names:
            if name not in nodes:
                return f"instance {name} has no Node"
    return None


AT_REST_GROUPS_HAVE_THEIR_NODES = Invariant("each instance has its Node at rest", _missing)


def _waiting(run: Run) -> str | None:
    """Name a pod that waits for a node while a group may grow."""
    fleet = _probe(run).fleet
    if fleet is None or not any(
        each.target < fleet.most(each.name) for each in fleet.describe().groups
    ):
        return None
    for pod in _pods(run):
        if not (pod.get("spec") or {}).get("nodeName"):
            return f"{pod['metadata']['name']} waits, and a group may grow"
    return None


AT_REST_NO_POD_WAITS_FOR_A_NODE = Invariant("no pod waits for a node at rest", _waiting)
"""For workloads whose pods fit a node of every group."""


def enough_stay_ready(label: str, value: str, least: int) -> Invariant:
    """Pods with a label stay ready, as their budget says, once that many were: evictions are all that ends them."""
    reached = "ready enough"

    def ready(run: Run) -> int:
        return sum(
            is_ready(pod)
            for pod in _pods(run)
            if (pod["metadata"].get("labels") or {}).get(label) == value
            and not pod["metadata"].get("deletionTimestamp")
        )

    def check(run: Run) -> str | None:
        found = ready(run)
        if found > least:
            run.notes[reached] = True
        if run.notes.get(reached) and found < least:
            return f"{found} pods with {label}={value} are ready, and the budget asks for {least}"
        return None

    return Invariant("a drain keeps to the budget", check, ("apiserver",), looks_at=stored_pods)


def the_size_settles(most: int) -> Invariant:
    """Once the users have noted `calm`, the number of requests by then, at most so many more are made."""

    def check(run: Run) -> str | None:
        calm: Any = run.notes.get("calm")
        more = 0 if calm is None else len(_probe(run).calls) - calm
        return f"{more} requests to the cloud after the last change" if more > most else None

    return Invariant(
        "the size of the cluster settles",
        check,
        (CLOUD,),
        looks_at=lambda run: len(_probe(run).calls),
    )
