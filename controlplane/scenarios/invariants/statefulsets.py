"""Invariants of StatefulSets in order: their pods begin one after the other, and go one at a time.

Upstream: pkg/controller/statefulset/stateful_set_control.go (`processReplica`, `processCondemned`, the rolling update
of a monotonic set). They are asked at each write. A controller whose caches are late breaks neither: it sees its own
writes before it acts (gate StaleControllerConsistencyStatefulSet), as long as it lives and no answer to it is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.tree import is_ready
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import (
    PODS,
    first_owners,
    note,
    nothing_was_lost,
    pods_by_owner,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = ["ordinals_begin_in_order", "ordinals_go_one_at_a_time"]

STATEFUL_SETS = "/registry/statefulsets/"


def _in_order(run: Run) -> Iterator[tuple[Object[Any], list[Object[Any]]]]:
    """The StatefulSets in order that are not being deleted, with their pods."""
    pods = pods_by_owner(run, "StatefulSet")
    for owner in run.objects(STATEFUL_SETS):
        policy = owner.tree["spec"].get("podManagementPolicy", "OrderedReady")
        if policy == "OrderedReady" and not owner.metadata.get("deletionTimestamp"):
            yield owner, pods.get(owner.uid, [])


def _ordinal(pod: Object[Any]) -> int:
    return int(pod.name.rpartition("-")[2])


def ordinals_begin_in_order(after: str) -> Invariant:
    """A pod of a StatefulSet in order begins only once each pod before it was there and ready.

    The pod that has the earlier ordinal now must have been ready at some time; of an ordinal without a pod, some pod. A
    controller that lived through all of it knows the former, since it made that pod itself.
    """

    def check(run: Run) -> str | None:
        all_ready = note(run, "ordinals that were ready")
        ready_uids = note(run, "pods of StatefulSets that were ready")
        seen, made_by = note(run, "pods of StatefulSets seen"), first_owners(run)
        for owner, pods in _in_order(run):
            first = (owner.tree["spec"].get("ordinals") or {}).get("start", 0)
            ready: set[int] = all_ready.setdefault(owner.uid, set())
            there = {_ordinal(pod): pod for pod in pods}
            for pod in pods:
                if pod.uid not in seen:
                    seen[pod.uid] = True
                    if made_by[pod.uid] != owner.uid:
                        continue
                    for before in range(first, _ordinal(pod)):
                        known = there.get(before)
                        if known is not None and known.uid in ready_uids:
                            continue  # maybe under an earlier owner, which has left it
                        if before in ready and (known is None or not nothing_was_lost(run)):
                            continue
                        return f"{pod.key} is there, and {owner.name}-{before} was never ready"
                if is_ready(pod.tree):
                    ready.add(_ordinal(pod))
                    ready_uids[pod.uid] = True
        return None

    looks_at = stored(PODS, STATEFUL_SETS)
    return Invariant("ordinals begin in order", check, (after,), looks_at=looks_at)


def ordinals_go_one_at_a_time(after: str) -> Invariant:
    """A StatefulSet in order has at most one pod that is being deleted.

    For worlds in which nothing else deletes its pods. Scaled down, it waits until all successors are gone; updated,
    until the pod that it replaced is ready.
    """

    def check(run: Run) -> str | None:
        if not nothing_was_lost(run):
            return None
        for owner, pods in _in_order(run):
            going = [pod.name for pod in pods if pod.metadata.get("deletionTimestamp")]
            if len(going) > 1:
                return f"StatefulSet {owner.key} deletes {' and '.join(sorted(going))} at once"
        return None

    looks_at = stored(PODS, STATEFUL_SETS)
    return Invariant("ordinals go one at a time", check, (after,), looks_at=looks_at)
