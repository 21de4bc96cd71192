"""A Deployment's sizes, revisions and new ReplicaSet. Upstream: pkg/controller/deployment (sync.go, util)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.tree import Tree
from controlplane.api.validation import parse_int64
from controlplane.controllers.common.int_or_percent import BadIntOrPercent, scaled_value
from controlplane.controllers.common.ownership import controller_reference
from controlplane.controllers.common.pods import MAX_NAME
from controlplane.controllers.common.template_hash import template_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controlplane.api.apps import Deployment, ReplicaSet

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO = "deprecated.deployment.rollback.to"
HISTORY_CHARACTERS = 2000
UNLIMITED = 2**31 - 1
_NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
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


def total_size(sets: Iterable[ReplicaSet]) -> int:
    """Sum of spec.replicas."""
    return sum(size(replica_set) for replica_set in sets)


def total_available(sets: Iterable[ReplicaSet]) -> int:
    """Sum of status.availableReplicas."""
    return sum(replica_set.status.available_replicas for replica_set in sets)


def is_rolling(deployment: Deployment) -> bool:
    """Return whether pods are replaced step by step."""
    return deployment.spec.strategy.type == "RollingUpdate"


def _fence_posts(deployment: Deployment) -> tuple[int, int]:
    """Surge and unavailable pods in numbers; both 0 where one of them cannot be read."""
    rolling = deployment.spec.strategy.rolling_update
    replicas = wanted(deployment)
    try:
        surge = scaled_value(rolling.max_surge if rolling else None, replicas, round_up=True)
        unavailable = scaled_value(
            rolling.max_unavailable if rolling else None, replicas, round_up=False
        )
    except BadIntOrPercent:
        return 0, 0
    return surge, unavailable if surge or unavailable else 1


def max_surge(deployment: Deployment) -> int:
    """Return the number of pods beyond the desired ones; percentages are rounded up."""
    return _fence_posts(deployment)[0] if is_rolling(deployment) else 0


def max_unavailable(deployment: Deployment) -> int:
    """Return the number of desired pods that may be missing; percentages are rounded down.

    At least 1 where nothing may be added, at most the replicas wanted.
    """
    if not is_rolling(deployment):
        return 0
    return min(_fence_posts(deployment)[1], wanted(deployment))


def min_available(deployment: Deployment) -> int:
    """Return the number of pods that have to be available during a rollout."""
    return wanted(deployment) - max_unavailable(deployment) if is_rolling(deployment) else 0


def age(replica_set: ReplicaSet) -> tuple[int, str]:
    """Sort key: oldest first, by name among equals."""
    return (replica_set.metadata.creation_timestamp or 0, replica_set.name)


def _template_without_hash(template: Tree) -> Tree:
    metadata = dict(template.get("metadata") or {})
    labels = {
        key: value
        for key, value in (metadata.pop("labels", None) or {}).items()
        if key != HASH_LABEL
    }
    if labels:
        metadata["labels"] = labels
    filled = {key: value for key, value in metadata.items() if value}
    return {**template, "metadata": filled}


def same_template(deployment: Deployment, replica_set: ReplicaSet) -> bool:
    """Return whether a replica set has the deployment's template, whatever its hash label."""
    one, other = deployment.tree["spec"]["template"], replica_set.tree["spec"]["template"]
    return _template_without_hash(one) == _template_without_hash(other)


def find_new(deployment: Deployment, owned: Sequence[ReplicaSet]) -> ReplicaSet | None:
    """The oldest owned replica set with the deployment's template."""
    return next(
        (found for found in sorted(owned, key=age) if same_template(deployment, found)), None
    )


def revision_of(annotations: Mapping[str, str]) -> int | None:
    """The revision annotation: 0 when absent, None when it is no number."""
    return parse_int64(annotations[REVISION]) if REVISION in annotations else 0


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """One more than the highest revision of the old replica sets."""
    return max((revision_of(found.annotations) or 0 for found in old), default=0) + 1


def last_revision(sets: Iterable[ReplicaSet]) -> int:
    """The second highest revision, 0 where there is none."""
    highest = second = 0
    for found in sets:
        revision = revision_of(found.annotations)
        if revision is None:
            continue
        if revision >= highest:
            second, highest = highest, revision
        elif revision > second:
            second = revision
    return second


def rollback_to(deployment: Deployment) -> int | None:
    """The revision to which the deployment is to go back, 0 for the last one; None if it is not to."""
    return parse_int64(deployment.annotations.get(ROLLBACK_TO, ""))


def rolled_back(deployment: Deployment, target: ReplicaSet | None) -> Tree:
    """The deployment without the wish to roll back, with template and annotations of `target` if there is one."""
    annotations = {
        key: value for key, value in deployment.annotations.items() if key != ROLLBACK_TO
    }
    tree: Tree = deployment.tree
    if target is not None:
        template = target.tree["spec"]["template"]
        metadata = dict(template.get("metadata") or {})
        labels = {
            key: value
            for key, value in (metadata.pop("labels", None) or {}).items()
            if key != HASH_LABEL
        }
        if labels:
            metadata["labels"] = labels
        tree = {**tree, "spec": {**tree["spec"], "template": {**template, "metadata": metadata}}}
        annotations = {
            **{key: value for key, value in annotations.items() if key in _NOT_COPIED},
            **{key: value for key, value in target.annotations.items() if key not in _NOT_COPIED},
        }
    metadata = {key: value for key, value in tree["metadata"].items() if key != "annotations"}
    if annotations:
        metadata["annotations"] = annotations
    return {**tree, "metadata": metadata}


def sizing_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations of a replica set about its size; proportional scaling reads them."""
    replicas = wanted(deployment)
    return {
        DESIRED_REPLICAS: str(replicas),
        MAX_REPLICAS: str(replicas + max_surge(deployment)),
    }


def synced_annotations(
    deployment: Deployment, known: dict[str, str], revision: int
) -> dict[str, str]:
    """A replica set's annotations after the deployment's were copied and its revision was brought up.

    A replica set that becomes the newest again (a rollback) notes the revision it had before in its
    history. A revision annotation that is no number is left alone.
    """
    copied = {key: value for key, value in deployment.annotations.items() if key not in _NOT_COPIED}
    annotations = {**known, **copied}
    before = revision_of(known)
    if before is None or before >= revision:
        return annotations
    annotations[REVISION] = str(revision)
    if REVISION in known:
        annotations[REVISION_HISTORY] = _history(known.get(REVISION_HISTORY, ""), known[REVISION])
    return annotations


def _history(known: str, revision: str) -> str:
    """The list of past revisions with one more; the oldest give way at 2000 characters."""
    if not known:
        return revision
    revisions = known.split(",")
    length = len(known) + len(revision) + 1
    start = 0
    while length > HISTORY_CHARACTERS and start < len(revisions):
        length -= len(revisions[start]) + 1
        start += 1
    return ",".join([*revisions[start:], revision]) if length <= HISTORY_CHARACTERS else known


def updated_new(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> Tree | None:
    """The new replica set with annotations and minReadySeconds of the deployment; None if it has them."""
    annotations = synced_annotations(deployment, new.annotations, next_revision(old))
    min_ready = deployment.spec.min_ready_seconds
    if annotations == new.annotations and new.spec.min_ready_seconds == min_ready:
        return None
    tree = new.tree
    spec = {key: value for key, value in tree["spec"].items() if key != "minReadySeconds"}
    if min_ready:
        spec["minReadySeconds"] = min_ready
    return {**tree, "metadata": {**tree["metadata"], "annotations": annotations}, "spec": spec}


def replica_set_name(deployment: str, hashed: str) -> str:
    """The name of a deployment's replica set; a long deployment name is cut so that it fits."""
    return f"{deployment[: MAX_NAME - len(hashed) - 1]}-{hashed}"


def new_replica_set(deployment: Deployment, old: Sequence[ReplicaSet]) -> Tree:
    """The replica set to be created for the deployment's template."""
    template: Tree = deployment.tree["spec"]["template"]
    hashed = template_hash(template, deployment.status.collision_count)
    metadata = dict(template.get("metadata") or {})
    labels = {**(metadata.get("labels") or {}), HASH_LABEL: hashed}
    metadata["labels"] = labels
    selector: Tree = dict(deployment.tree["spec"].get("selector") or {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed}
    annotations = synced_annotations(deployment, {}, next_revision(old))
    spec: Tree = {
        "replicas": new_size(deployment, total_size(old), 0),
        "selector": selector,
        "template": {**template, "metadata": metadata},
    }
    if deployment.spec.min_ready_seconds:
        spec["minReadySeconds"] = deployment.spec.min_ready_seconds
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": replica_set_name(deployment.name, hashed),
            "namespace": deployment.namespace,
            "labels": labels,
            "annotations": annotations | sizing_annotations(deployment),
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": spec,
    }


def new_size(deployment: Deployment, total: int, current: int) -> int:
    """Return the size that the new replica set of `current` pods may have when there are `total` in all.

    It grows as far as maxSurge allows. Raises BadIntOrPercent.
    """
    replicas = wanted(deployment)
    if not is_rolling(deployment):
        return replicas
    rolling = deployment.spec.strategy.rolling_update
    surge = scaled_value(rolling.max_surge if rolling else None, replicas, round_up=True)
    room = replicas + surge - total
    return current + min(room, replicas - current) if room > 0 else current


def surplus_history(deployment: Deployment, old: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Old replica sets beyond revisionHistoryLimit that are fully scaled down and observed, oldest revision first."""
    limit = deployment.spec.revision_history_limit
    if limit is None or limit == UNLIMITED:
        return []
    alive = [found for found in old if found.metadata.deletion_timestamp is None]
    excess = len(alive) - limit
    if excess <= 0:
        return []
    by_revision = sorted(alive, key=lambda found: (revision_of(found.annotations) or 0, age(found)))
    return [
        found
        for found in by_revision[:excess]
        if found.status.replicas == 0
        and size(found) == 0
        and found.metadata.generation <= found.status.observed_generation
    ]
