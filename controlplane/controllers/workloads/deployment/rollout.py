"""The next moves of a Deployment between its ReplicaSets. Upstream: pkg/controller/deployment (rolling.go, sync.go).

Each function answers moves for one part of a turn; the loop carries a part out before it asks for
the next one, because upstream counts again on what the API server answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controlplane.api.validation import parse_int64
from controlplane.controllers.workloads.deployment.replica_sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    age,
    is_rolling,
    max_surge,
    max_unavailable,
    new_size,
    size,
    total_available,
    total_size,
    wanted,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controlplane.api.apps import Deployment, ReplicaSet


class Resize(NamedTuple):
    """Scale one replica set to `replicas`."""

    replica_set: ReplicaSet
    replicas: int


def active(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """The replica sets that want pods."""
    return [found for found in sets if size(found) > 0]


def scale_new(
    deployment: Deployment, new: ReplicaSet, everything: Sequence[ReplicaSet]
) -> list[Resize]:
    """Bring the new replica set to what it may have now."""
    current, replicas = size(new), wanted(deployment)
    if current > replicas:
        return [Resize(new, replicas)]
    target = current
    if current != replicas:
        target = new_size(deployment, total_size(everything), current)
    return [Resize(new, target)] if target != size(new) else []


def _to_spare(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> int:
    """Return the number of old pods that may go: pods held for unavailable new ones stay."""
    total = total_size(old) + size(new)
    least = wanted(deployment) - max_unavailable(deployment)
    return total - least - (size(new) - new.status.available_replicas)


def drop_unhealthy(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]
) -> tuple[list[Resize], bool]:
    """Old pods that are not available go first, oldest replica set first; and whether available ones may follow.

    They may not when nothing is to spare, nor when a replica set still reports more available pods
    than it wants: then an earlier move has not been counted yet.
    """
    moves: list[Resize] = []
    spare = _to_spare(deployment, new, old)
    if not total_size(old) or spare <= 0:
        return moves, False
    for found in sorted(old, key=age):
        if spare <= 0:
            break
        unhealthy = size(found) - found.status.available_replicas
        if not size(found) or not unhealthy:
            continue
        if unhealthy < 0:
            return moves, False
        down = min(spare, unhealthy)
        moves.append(Resize(found, size(found) - down))
        spare -= down
    return moves, True


def drop_available(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]
) -> list[Resize]:
    """Old pods go as far as enough stay available, oldest replica set first."""
    least = wanted(deployment) - max_unavailable(deployment)
    spare = total_available(old) + new.status.available_replicas - least
    moves = []
    for found in sorted(old, key=age):
        if spare <= 0:
            break
        if size(found):
            down = min(spare, size(found))
            moves.append(Resize(found, size(found) - down))
            spare -= down
    return moves


def is_scaling(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Return whether spec.replicas changed since the replica sets were last sized."""
    for found in active(sets):
        noted = _number(found, DESIRED_REPLICAS)
        if noted is not None and noted != wanted(deployment):
            return True
    return False


def _number(replica_set: ReplicaSet, annotation: str) -> int | None:
    """A note about sizes: a number of 32 bits that is not negative, or None."""
    number = parse_int64(replica_set.annotations.get(annotation, ""))
    return number if number is not None and 0 <= number < 2**31 else None


def follow_scale(
    deployment: Deployment,
    new: ReplicaSet | None,
    old: Sequence[ReplicaSet],
    *,
    renews: bool = False,
) -> list[Resize]:
    """Follow a change of spec.replicas; several live replica sets share it in proportion.

    A move to the size a replica set has already only renews its notes. Upstream leaves out that move where only
    one is live, and from then on takes every turn for a change of scale; with `renews` (proposed in 138036) it
    is made.
    """
    replicas = wanted(deployment)
    live = active([*old, new] if new is not None else old)
    if len(live) <= 1:
        newest = max(old, key=age, default=None) if new is None else new
        only = live[0] if live else newest
        if only is None or (size(only) == replicas and not renews):
            return []
        return [Resize(only, replicas)]
    if new is not None and _is_saturated(deployment, new):
        return [Resize(found, 0) for found in active(old)]
    return _proportional(deployment, live) if is_rolling(deployment) else []


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    """Return whether the new replica set alone has all that is wanted."""
    replicas = wanted(deployment)
    return (
        size(new) == replicas
        and _number(new, DESIRED_REPLICAS) == replicas
        and new.status.available_replicas == replicas
    )


def _proportional(deployment: Deployment, live: Sequence[ReplicaSet]) -> list[Resize]:
    """Share what is to be added or removed; the largest replica set takes the rest."""
    replicas = wanted(deployment)
    allowed = replicas + max_surge(deployment) if replicas > 0 else 0
    to_add = allowed - total_size(live)
    ordered = list(live)
    if to_add:
        ordered.sort(key=age, reverse=to_add > 0)
        ordered.sort(key=size, reverse=True)
    sizes: dict[str, int] = {}
    left = to_add
    for found in ordered:
        share = _fraction(deployment, found) if left else 0
        share = min(share, left) if to_add > 0 else max(share, left)
        sizes[found.name] = size(found) + share
        left -= share
    if left:
        largest = ordered[0].name
        sizes[largest] = max(0, sizes[largest] + left)
    return [Resize(found, sizes[found.name]) for found in ordered]


def _fraction(deployment: Deployment, replica_set: ReplicaSet) -> int:
    """Return the change of a replica set that keeps its part of the whole, rounded half away from zero."""
    current = size(replica_set)
    if wanted(deployment) == 0:
        return -current
    after = wanted(deployment) + max_surge(deployment)
    before = _number(replica_set, MAX_REPLICAS) or deployment.status.replicas
    if not before:
        return 0
    return (2 * current * after + before) // (2 * before) - current
