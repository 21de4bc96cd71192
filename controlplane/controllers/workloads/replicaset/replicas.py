"""Decisions of the ReplicaSet controller. Upstream: pkg/controller/replicaset/replica_set.go, replica_set_utils.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controlplane.api.times import SECOND, format_time
from controlplane.api.tree import Tree
from controlplane.controllers.common.ownership import controller_references
from controlplane.controllers.common.pods import (
    available_at,
    by_deletion_rank,
    generate_name,
    is_available,
    is_ready,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controlplane.api.apps import ReplicaSet
    from controlplane.api.pod import Pod

BURST_REPLICAS = 500
REPLICA_FAILURE = "ReplicaFailure"


class Plan(NamedTuple):
    """The number of pods to create, or the pods to delete (never both)."""

    create: int
    delete: list[Pod]


def wanted(replica_set: ReplicaSet) -> int:
    """spec.replicas, 1 when absent."""
    replicas = replica_set.spec.replicas
    return 1 if replicas is None else replicas


def manage_replicas(
    replica_set: ReplicaSet, active: Sequence[Pod], related_on_node: Mapping[str, int], now: int
) -> Plan:
    """Bring the number of active pods to what is wanted, at most 500 at a time."""
    diff = len(active) - wanted(replica_set)
    if diff < 0:
        return Plan(min(-diff, BURST_REPLICAS), [])
    if diff == 0:
        return Plan(0, [])
    count = min(diff, BURST_REPLICAS)
    if count < len(active):
        return Plan(0, by_deletion_rank(active, related_on_node, now)[:count])
    return Plan(0, list(active))


def new_pod(replica_set: ReplicaSet) -> Tree:
    """The pod that the template asks for."""
    template: Tree = replica_set.tree["spec"]["template"]
    metadata: Tree = {
        key: value
        for key, value in (template.get("metadata") or {}).items()
        if key in {"labels", "annotations", "finalizers"}
    }
    metadata["generateName"] = generate_name(replica_set.name)
    metadata["ownerReferences"] = controller_references(replica_set)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def new_status(
    replica_set: ReplicaSet,
    active: Sequence[Pod],
    terminating: int,
    error: str | None,
    now: int,
) -> Tree:
    """The status to be written.

    `error` is what went wrong while pods were created or deleted; it becomes condition
    ReplicaFailure, which then stays as it is until a turn goes well.
    """
    template_labels = replica_set.spec.template.metadata.labels
    min_ready = replica_set.spec.min_ready_seconds
    status: Tree = {"replicas": len(active), "observedGeneration": replica_set.metadata.generation}
    ready = [pod for pod in active if is_ready(pod)]
    counts = {
        "fullyLabeledReplicas": _labelled(active, template_labels),
        "readyReplicas": len(ready),
        "availableReplicas": sum(is_available(pod, min_ready, now) for pod in ready)
        if min_ready
        else len(ready),
    }
    status.update({name: count for name, count in counts.items() if count})
    status["terminatingReplicas"] = terminating
    conditions = list((replica_set.tree.get("status") or {}).get("conditions", ()))
    failed = any(found["type"] == REPLICA_FAILURE for found in conditions)
    if error is not None and not failed:
        conditions.append(_failure(len(active) - wanted(replica_set), error, now))
    elif error is None and failed:
        conditions = [found for found in conditions if found["type"] != REPLICA_FAILURE]
    if conditions:
        status["conditions"] = conditions
    return status


def _labelled(active: Sequence[Pod], template_labels: Mapping[str, str]) -> int:
    """Return the number of pods with all labels of the template. Equal label sets are compared once."""
    every = [pod.labels for pod in active]
    asked = template_labels.items()
    has = {at: asked <= labels.items() for at, labels in {id(each): each for each in every}.items()}
    return sum([has[id(each)] for each in every])


def _failure(surplus: int, message: str, now: int) -> Tree:
    return {
        "type": REPLICA_FAILURE,
        "status": "True",
        "lastTransitionTime": format_time(now),
        "reason": "FailedCreate" if surplus < 0 else "FailedDelete",
        "message": message,
    }


def status_differs(replica_set: ReplicaSet, status: Tree) -> bool:
    """Return whether the status has to be written."""
    return bool((replica_set.tree.get("status") or {}) != status)


def next_available(
    replica_set: ReplicaSet, active: Sequence[Pod], status: Tree, now: int
) -> int | None:
    """Return the time at which the next ready pod becomes available; None if all ready ones are."""
    seconds = replica_set.spec.min_ready_seconds
    if not seconds or status.get("readyReplicas", 0) == status.get("availableReplicas", 0):
        return None
    times = [available_at(pod, seconds) for pod in active if is_ready(pod)]
    return min((at for at in times if at is not None and at > now), default=now + seconds * SECOND)
