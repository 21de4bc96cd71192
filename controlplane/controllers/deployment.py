"""What a Deployment controller decides. Upstream: pkg/controller/deployment (sync.go, rolling.go, progress.go, util)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from controlplane.api.times import format_time
from controlplane.controllers.ownership import controller_reference
from controlplane.controllers.template_hash import template_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.apps import Deployment, ReplicaSet

Tree = dict[str, Any]
SECOND = 1_000_000_000
HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        "deployment.kubernetes.io/revision-history",
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.to",
    }
)


def wanted(deployment: Deployment) -> int:
    """spec.replicas, 1 when absent."""
    replicas = deployment.spec.replicas
    return 1 if replicas is None else replicas


def size(replica_set: ReplicaSet) -> int:
    """spec.replicas of a replica set, 1 when absent."""
    replicas = replica_set.spec.replicas
    return 1 if replicas is None else replicas


def _share(value: int | str | None, total: int, *, up: bool, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, int):
        return value
    percent = int(value.rstrip("%"))
    return -(-percent * total // 100) if up else percent * total // 100


def surge_and_unavailable(deployment: Deployment) -> tuple[int, int]:
    """MaxSurge (rounded up) and maxUnavailable (rounded down, capped at the replicas), in pods."""
    if deployment.spec.strategy.type == "Recreate":
        return 0, 0
    replicas = wanted(deployment)
    rolling = deployment.spec.strategy.rolling_update
    surge = _share(rolling.max_surge if rolling else None, replicas, up=True, default=0)
    unavailable = _share(
        rolling.max_unavailable if rolling else None, replicas, up=False, default=0
    )
    if surge == 0 and unavailable == 0:
        unavailable = 1
    if replicas == 0:
        return 0, 0
    return surge, min(unavailable, replicas)


def _age(replica_set: ReplicaSet) -> tuple[int, str]:
    return (replica_set.metadata.creation_timestamp or 0, replica_set.name)


def _template_without_hash(template: Tree) -> Tree:
    metadata = dict(template.get("metadata") or {})
    metadata.pop("creationTimestamp", None)
    labels = {
        key: value
        for key, value in (metadata.pop("labels", None) or {}).items()
        if key != HASH_LABEL
    }
    if labels:
        metadata["labels"] = labels
    return {**template, "metadata": metadata}


def find_new(deployment: Deployment, owned: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The oldest owned replica set with the deployment's template."""
    template = _template_without_hash(deployment.tree["spec"]["template"])
    for replica_set in sorted(owned, key=_age):
        if _template_without_hash(replica_set.tree["spec"]["template"]) == template:
            return replica_set
    return None


def revision_of(replica_set: ReplicaSet) -> int:
    """The revision annotation, 0 when absent or not a number."""
    try:
        return int(replica_set.annotations.get(REVISION, "0"))
    except ValueError:
        return 0


def sizing_annotations(deployment: Deployment) -> dict[str, str]:
    """What a replica set notes about the size it was given; proportional scaling reads it."""
    surge, _ = surge_and_unavailable(deployment)
    replicas = wanted(deployment)
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(replicas + surge)}


def _annotations(deployment: Deployment, revision: int) -> dict[str, str]:
    copied = {key: value for key, value in deployment.annotations.items() if key not in _NOT_COPIED}
    return {**copied, REVISION: str(revision), **sizing_annotations(deployment)}


def new_replica_set(deployment: Deployment, owned: Sequence[ReplicaSet]) -> Tree:
    """The replica set to be created for the deployment's template."""
    template: Tree = deployment.tree["spec"]["template"]
    hashed = template_hash(_template_without_hash(template), deployment.status.collision_count)
    metadata = dict(template.get("metadata") or {})
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: hashed}
    metadata["labels"] = labels
    selector: Tree = dict(deployment.tree["spec"].get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed}
    revision = max((revision_of(old) for old in owned), default=0) + 1
    spec: Tree = {
        "replicas": new_replica_set_size(deployment, list(owned), 0),
        "selector": selector,
        "template": {**template, "metadata": metadata},
    }
    if deployment.spec.min_ready_seconds:
        spec["minReadySeconds"] = deployment.spec.min_ready_seconds
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{deployment.name}-{hashed}",
            "namespace": deployment.namespace,
            "labels": labels,
            "annotations": _annotations(deployment, revision),
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": spec,
    }


def new_replica_set_size(
    deployment: Deployment, all_sets: Sequence[ReplicaSet], current: int
) -> int:
    """How large the new replica set may be now: it grows as far as maxSurge allows, and shrinks at once."""
    replicas = wanted(deployment)
    if deployment.spec.strategy.type == "Recreate":
        return replicas
    surge, _ = surge_and_unavailable(deployment)
    total = sum(size(replica_set) for replica_set in all_sets)
    limit = replicas + surge
    if current > replicas:
        return replicas
    if total >= limit:
        return current
    return current + min(limit - total, replicas - current)


@frozen
class Resize:
    """Scale one replica set to `replicas`; `direction` is up or down (for the event)."""

    replica_set: ReplicaSet
    replicas: int

    @property
    def direction(self) -> str:
        """As the event's text says it."""
        return "up" if self.replicas > size(self.replica_set) else "down"


def rolling_update(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> list[Resize]:
    """The next moves of a rolling update. Growth comes first and ends the turn."""
    everything = [*old, new] if new is not None else list(old)
    if new is not None:
        target = new_replica_set_size(deployment, everything, size(new))
        if target != size(new):
            return [Resize(new, target)]
    return _scale_old_down(deployment, new, old)


def _scale_old_down(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> list[Resize]:
    old_pods = sum(size(replica_set) for replica_set in old)
    if old_pods == 0:
        return []
    replicas = wanted(deployment)
    _, unavailable = surge_and_unavailable(deployment)
    min_available = replicas - unavailable
    new_size = size(new) if new is not None else 0
    new_available = new.status.available_replicas if new is not None else 0
    max_down = old_pods + new_size - min_available - (new_size - new_available)
    if max_down <= 0:
        return []
    sizes = {replica_set.uid: size(replica_set) for replica_set in old}
    by_age = sorted(old, key=_age)
    for replica_set in by_age:  # unhealthy pods of old sets go first
        unhealthy = sizes[replica_set.uid] - replica_set.status.available_replicas
        down = max(0, min(max_down, unhealthy))
        sizes[replica_set.uid] -= down
        max_down -= down
    available = new_available + sum(
        min(replica_set.status.available_replicas, sizes[replica_set.uid]) for replica_set in old
    )
    spare = available - min_available
    for replica_set in by_age:
        down = max(0, min(spare, sizes[replica_set.uid]))
        sizes[replica_set.uid] -= down
        spare -= down
    return [
        Resize(replica_set, sizes[replica_set.uid])
        for replica_set in by_age
        if sizes[replica_set.uid] != size(replica_set)
    ]


def recreate(
    deployment: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    old_pods_running: bool,
) -> list[Resize]:
    """The next moves of strategy Recreate: all old pods go before the first new one comes."""
    down = [
        Resize(replica_set, 0) for replica_set in sorted(old, key=_age) if size(replica_set) > 0
    ]
    if down:
        return down
    if old_pods_running or new is None or size(new) == wanted(deployment):
        return []
    return [Resize(new, wanted(deployment))]


def is_scaling(deployment: Deployment, sets: Sequence[ReplicaSet]) -> bool:
    """Whether spec.replicas changed since the replica sets were last sized."""
    for replica_set in sets:
        noted = replica_set.annotations.get(DESIRED_REPLICAS)
        if size(replica_set) > 0 and noted is not None and noted != str(wanted(deployment)):
            return True
    return False


def scale(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> list[Resize]:
    """Follow a change of spec.replicas; several live replica sets share it in proportion."""
    replicas = wanted(deployment)
    everything = [*old, new] if new is not None else list(old)
    live = [replica_set for replica_set in everything if size(replica_set) > 0]
    if len(live) <= 1:
        only = live[0] if live else new
        if only is None or size(only) == replicas:
            return []
        return [Resize(only, replicas)]
    if new is not None and new.status.available_replicas >= replicas and size(new) == replicas:
        return [Resize(replica_set, 0) for replica_set in old if size(replica_set) > 0]
    if deployment.spec.strategy.type == "Recreate":
        return []
    return _proportional(deployment, live)


def _proportional(deployment: Deployment, live: list[ReplicaSet]) -> list[Resize]:
    replicas = wanted(deployment)
    surge, _ = surge_and_unavailable(deployment)
    allowed = replicas + surge if replicas > 0 else 0
    to_add = allowed - sum(size(replica_set) for replica_set in live)
    newest_first = to_add > 0
    live.sort(key=_age, reverse=newest_first)
    live.sort(key=size, reverse=True)
    sizes: dict[str, int] = {}
    added = 0
    for replica_set in live:
        share = _fraction(replica_set, allowed, to_add - added) if to_add else 0
        sizes[replica_set.uid] = size(replica_set) + share
        added += share
    rest = to_add - added
    if rest:
        first = live[0].uid
        sizes[first] = max(0, sizes[first] + rest)
    return [Resize(found, sizes[found.uid]) for found in live if sizes[found.uid] != size(found)]


def _fraction(replica_set: ReplicaSet, allowed: int, left: int) -> int:
    current = size(replica_set)
    noted = replica_set.annotations.get(MAX_REPLICAS, "")
    before = int(noted) if noted.isdigit() and int(noted) > 0 else current
    # Half away from zero on non-negative integers.
    share = (2 * current * allowed + before) // (2 * before) - current
    return min(share, left) if left > 0 else max(share, left)


def new_status(
    deployment: Deployment, new: ReplicaSet | None, everything: Sequence[ReplicaSet], now: int
) -> Tree:
    """The status to be written, conditions included."""
    total = sum(replica_set.status.replicas for replica_set in everything)
    available = sum(replica_set.status.available_replicas for replica_set in everything)
    ready = sum(replica_set.status.ready_replicas for replica_set in everything)
    updated = new.status.replicas if new is not None else 0
    spec_total = sum(size(replica_set) for replica_set in everything)
    status: Tree = {"observedGeneration": deployment.metadata.generation}
    counts = {
        "replicas": total,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": available,
        "unavailableReplicas": max(0, spec_total - available),
    }
    status.update({name: count for name, count in counts.items() if count})
    status["terminatingReplicas"] = sum(
        found.status.terminating_replicas or 0 for found in everything
    )
    if deployment.status.collision_count is not None:
        status["collisionCount"] = deployment.status.collision_count
    status["conditions"] = _conditions(deployment, new, everything, updated, total, available, now)
    return status


def _conditions(
    deployment: Deployment,
    new: ReplicaSet | None,
    everything: Sequence[ReplicaSet],
    updated: int,
    total: int,
    available: int,
    now: int,
) -> list[Tree]:
    replicas = wanted(deployment)
    _, unavailable = surge_and_unavailable(deployment)
    known: list[Tree] = list((deployment.tree.get("status") or {}).get("conditions", ()))
    if available >= replicas - unavailable:
        text = "Deployment has minimum availability."
        known = _set(known, "Available", "True", "MinimumReplicasAvailable", text, now)
    else:
        text = "Deployment does not have minimum availability."
        known = _set(known, "Available", "False", "MinimumReplicasUnavailable", text, now)
    old_status = deployment.status
    complete = updated == replicas and total == replicas and available >= replicas
    complete = complete and old_status.observed_generation >= deployment.metadata.generation
    subject = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{deployment.name}"'
    progressing = next((found for found in known if found["type"] == "Progressing"), None)
    if complete:
        text = f"{subject} has successfully progressed."
        if new is not None:
            known = _set(known, "Progressing", "True", "NewReplicaSetAvailable", text, now)
    elif _progressed(deployment, updated, total, available, everything):
        text = f"{subject} is progressing."
        known = _set(known, "Progressing", "True", "ReplicaSetUpdated", text, now, touch=True)
    elif progressing is None and new is not None:
        text = f'Created new replica set "{new.name}"'
        known = _set(known, "Progressing", "True", "NewReplicaSetCreated", text, now)
    elif deadline_passed(deployment, now):
        text = f"{subject} has timed out progressing."
        known = _set(known, "Progressing", "False", "ProgressDeadlineExceeded", text, now)
    return known


def _progressed(
    deployment: Deployment,
    updated: int,
    total: int,
    available: int,
    everything: Sequence[ReplicaSet],
) -> bool:
    before = deployment.status
    ready = sum(replica_set.status.ready_replicas for replica_set in everything)
    return (
        updated > before.updated_replicas
        or total - updated < before.replicas - before.updated_replicas
        or ready > before.ready_replicas
        or available > before.available_replicas
    )


def progress_deadline(deployment: Deployment) -> int | None:
    """When a deployment that makes no progress is given up, in nanoseconds; None if it is not progressing."""
    seconds = deployment.spec.progress_deadline_seconds
    if seconds is None or seconds >= 2**31 - 1:
        return None
    for found in deployment.status.conditions:
        if found.type == "Progressing" and found.reason not in {
            "NewReplicaSetAvailable",
            "ProgressDeadlineExceeded",
        }:
            return (found.last_update_time or 0) + seconds * SECOND
    return None


def deadline_passed(deployment: Deployment, now: int) -> bool:
    """Whether no progress was made for progressDeadlineSeconds."""
    deadline = progress_deadline(deployment)
    return deadline is not None and now >= deadline


def _set(
    conditions: list[Tree],
    kind: str,
    status: str,
    reason: str,
    message: str,
    now: int,
    *,
    touch: bool = False,
) -> list[Tree]:
    """Set a condition. Same status and reason: unchanged (unless touched); same status: the transition time stays."""
    stamp = format_time(now)
    made: Tree = {
        "type": kind,
        "status": status,
        "lastUpdateTime": stamp,
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message,
    }
    for found in conditions:
        if found["type"] == kind:
            if found["status"] == status and found.get("reason") == reason and not touch:
                return conditions
            if found["status"] == status:
                made["lastTransitionTime"] = found["lastTransitionTime"]
    return [*(found for found in conditions if found["type"] != kind), made]


def surplus_history(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Old replica sets beyond revisionHistoryLimit that are fully scaled down and observed, oldest revision first."""
    limit = deployment.spec.revision_history_limit
    if limit is None:
        return []
    alive = [found for found in old if found.metadata.deletion_timestamp is None]
    excess = len(alive) - limit
    if excess <= 0:
        return []
    by_revision = sorted(alive, key=lambda found: (revision_of(found), _age(found)))
    return [
        found
        for found in by_revision[:excess]
        if found.status.replicas == 0
        and size(found) == 0
        and found.metadata.generation <= found.status.observed_generation
    ]


def is_complete(deployment: Deployment) -> bool:
    """Whether the deployment has finished rolling out, by its own status."""
    status = deployment.status
    replicas = wanted(deployment)
    return (
        status.updated_replicas == replicas
        and status.replicas == replicas
        and status.available_replicas == replicas
        and status.observed_generation >= deployment.metadata.generation
    )
