"""A Deployment's status and conditions. Upstream: pkg/controller/deployment/progress.go, sync.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.times import SECOND, format_time, parse_time
from controlplane.api.tree import Tree
from controlplane.controllers.workloads.deployment.replica_sets import (
    UNLIMITED,
    max_unavailable,
    total_available,
    total_size,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.apps import Deployment, ReplicaSet

PROGRESSING = "Progressing"
REPLICA_FAILURE = "ReplicaFailure"
TIMED_OUT = "ProgressDeadlineExceeded"
NEW_AVAILABLE = "NewReplicaSetAvailable"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"
RECHECK_AFTER_NS = SECOND
"""The delay of the next look at the progress after the deadline."""


def status_of(deployment: Deployment) -> Tree:
    """The status as it is in the tree."""
    status: Tree = deployment.tree.get("status") or {}
    return status


def get_condition(status: Tree, kind: str) -> Tree | None:
    """The condition of that type."""
    for found in status.get("conditions") or ():
        if found["type"] == kind:
            condition: Tree = found
            return condition
    return None


def without_condition(status: Tree, kind: str) -> Tree:
    """A status without the condition of that type."""
    if get_condition(status, kind) is None:
        return status
    return {**status, "conditions": [each for each in status["conditions"] if each["type"] != kind]}


def with_condition(
    status: Tree, kind: str, value: str, reason: str, message: str, now: int, *, renew: bool = False
) -> Tree:
    """A status with a condition set.

    With the same status and reason nothing changes, unless it is to be renewed; with the same
    status the transition time stays.
    """
    stamp = format_time(now)
    made: Tree = {
        "type": kind,
        "status": value,
        "lastUpdateTime": stamp,
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }
    return _put(status, made, renew=renew)


def _put(status: Tree, made: Tree, *, renew: bool = False) -> Tree:
    known = get_condition(status, made["type"])
    if known is not None and known["status"] == made["status"]:
        if known.get("reason") == made["reason"] and not renew:
            return status
        made = {**made, "lastTransitionTime": known["lastTransitionTime"]}
    others = without_condition(status, made["type"]).get("conditions", ())
    return {**status, "conditions": [*others, made]}


def has_deadline(deployment: Deployment) -> bool:
    """Return whether lack of progress is to be reported."""
    seconds = deployment.spec.progress_deadline_seconds
    return seconds is not None and seconds != UNLIMITED


def paused_status(deployment: Deployment, now: int) -> Tree | None:
    """The status that notes that a deployment was paused or resumed; None if there is nothing to note.

    So a deployment that is resumed has its whole progress deadline again.
    """
    status = status_of(deployment)
    known = get_condition(status, PROGRESSING)
    reason = known.get("reason") if known is not None else None
    if not has_deadline(deployment) or reason == TIMED_OUT:
        return None
    if deployment.spec.paused and reason != PAUSED:
        return with_condition(status, PROGRESSING, "Unknown", PAUSED, "Deployment is paused", now)
    if not deployment.spec.paused and reason == PAUSED:
        return with_condition(status, PROGRESSING, "Unknown", RESUMED, "Deployment is resumed", now)
    return None


def new_status(
    deployment: Deployment, new: ReplicaSet | None, everything: Sequence[ReplicaSet], now: int
) -> Tree:
    """Counts and condition Available; the other conditions as they are."""
    available = total_available(everything)
    status: Tree = {"observedGeneration": deployment.metadata.generation}
    counts = {
        "replicas": sum(found.status.replicas for found in everything),
        "updatedReplicas": new.status.replicas if new is not None else 0,
        "readyReplicas": sum(found.status.ready_replicas for found in everything),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total_size(everything) - available),
    }
    status.update({name: count for name, count in counts.items() if count})
    # One that its controller has not looked at yet holds nothing; one that says nothing spoils the sum.
    terminating = [
        found.status.terminating_replicas
        for found in everything
        if found.status.observed_generation or found.status.terminating_replicas is not None
    ]
    if None not in terminating:
        status["terminatingReplicas"] = sum(count or 0 for count in terminating)
    if deployment.status.collision_count is not None:
        status["collisionCount"] = deployment.status.collision_count
    status["conditions"] = list(status_of(deployment).get("conditions") or ())
    if available >= wanted(deployment) - max_unavailable(deployment):
        value, reason, text = "True", "MinimumReplicasAvailable", "has"
    else:
        value, reason, text = "False", "MinimumReplicasUnavailable", "does not have"
    return with_condition(
        status, "Available", value, reason, f"Deployment {text} minimum availability.", now
    )


def rollout_status(
    deployment: Deployment, new: ReplicaSet | None, everything: Sequence[ReplicaSet], now: int
) -> Tree:
    """The status during a rollout: progress is judged, and failures of replica sets are taken over."""
    status = new_status(deployment, new, everything, now)
    known = get_condition(status_of(deployment), PROGRESSING)
    subject = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{deployment.name}"'
    settled = (
        status.get("replicas", 0) == status.get("updatedReplicas", 0)
        and known is not None
        and known.get("reason") == NEW_AVAILABLE
    )
    if not has_deadline(deployment):
        status = without_condition(status, PROGRESSING)
    elif settled:
        pass
    elif is_complete(deployment, status):
        text = f"{subject} has successfully progressed."
        status = with_condition(status, PROGRESSING, "True", NEW_AVAILABLE, text, now)
    elif _progressed(deployment, status):
        text = f"{subject} is progressing."
        status = with_condition(
            status, PROGRESSING, "True", "ReplicaSetUpdated", text, now, renew=True
        )
    elif timed_out(deployment, now):
        text = f"{subject} has timed out progressing."
        status = with_condition(status, PROGRESSING, "False", TIMED_OUT, text, now)
    failure = _replica_failure(new, everything)
    if failure is None:
        return without_condition(status, REPLICA_FAILURE)
    return _put(status, failure)


def _replica_failure(new: ReplicaSet | None, everything: Sequence[ReplicaSet]) -> Tree | None:
    """The failure of the new replica set, or else the first one of any, as a deployment's condition."""
    for found in [new, *everything] if new is not None else everything:
        for condition in (found.tree.get("status") or {}).get("conditions") or ():
            if condition["type"] == REPLICA_FAILURE:
                return {
                    "type": REPLICA_FAILURE,
                    "status": condition["status"],
                    "lastUpdateTime": condition["lastTransitionTime"],
                    "lastTransitionTime": condition["lastTransitionTime"],
                    "reason": condition["reason"],
                    "message": condition["message"],
                }
    return None


def is_complete(deployment: Deployment, status: Tree) -> bool:
    """Return whether everything wanted is there, updated and available, and nothing else is."""
    replicas = wanted(deployment)
    counts = (status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas"))
    observed: int = status.get("observedGeneration", 0)
    return all(count == replicas for count in counts) and observed >= deployment.metadata.generation


def _progressed(deployment: Deployment, status: Tree) -> bool:
    before = deployment.status
    updated = status.get("updatedReplicas", 0)
    old = status.get("replicas", 0) - updated
    return bool(
        updated > before.updated_replicas
        or old < before.replicas - before.updated_replicas
        or status.get("readyReplicas", 0) > before.ready_replicas
        or status.get("availableReplicas", 0) > before.available_replicas
    )


def _deadline(deployment: Deployment, condition: Tree) -> int:
    seconds = deployment.spec.progress_deadline_seconds or 0
    return parse_time(condition["lastUpdateTime"]) + seconds * SECOND


def timed_out(deployment: Deployment, now: int) -> bool:
    """Return whether no progress was made for progressDeadlineSeconds."""
    known = get_condition(status_of(deployment), PROGRESSING)
    if not has_deadline(deployment) or known is None or known.get("reason") == NEW_AVAILABLE:
        return False
    return known.get("reason") == TIMED_OUT or _deadline(deployment, known) < now


def recheck_at(deployment: Deployment, status: Tree, now: int) -> int | None:
    """Return the time of the next look at the progress, in nanoseconds; None if no change is to be expected.

    A time in the past means at once, but rate limited.
    """
    known = get_condition(status_of(deployment), PROGRESSING)
    if not has_deadline(deployment) or known is None:
        return None
    if is_complete(deployment, status) or known.get("reason") == TIMED_OUT:
        return None
    deadline = _deadline(deployment, known)
    return deadline + RECHECK_AFTER_NS if deadline - now >= SECOND else 0
