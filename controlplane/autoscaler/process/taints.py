"""Taints that the autoscaler sets on nodes and takes off: an update, repeated on a fresh node after a conflict.

Upstream: `utils/taints/taints.go`. Points: `autoscaler.conflict` (the time before the next try).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from controlplane.api.node import Node
from controlplane.api.tree import Tree
from controlplane.autoscaler.nodes import DELETION_CANDIDATE, TO_BE_DELETED
from controlplane.autoscaler.options import SECOND
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_conflict
from controlplane.client.resources import NODES
from controlplane.controllers.common.effects import Reconcile
from controlplane.decisions import Sleep

_LONGEST: Final = 5 * SECOND
_INTERVAL: Final = SECOND * 3 // 4
Clock = Callable[[], int]


def mark_to_be_deleted(node: Node, clock: Clock, *, cordon: bool) -> Reconcile[None]:
    """Mark a node for deletion, and cordon it. Raises what the server refuses."""
    taint = {"key": TO_BE_DELETED, "value": _second(clock), "effect": "NoSchedule"}
    yield from _changed(node, clock, lambda spec: _added(spec, taint, cordon))


def mark_candidate(node: Node, clock: Clock) -> Reconcile[None]:
    """Mark a node as one that may be deleted later. Raises what the server refuses."""
    taint = {"key": DELETION_CANDIDATE, "value": _second(clock), "effect": "PreferNoSchedule"}
    yield from _changed(node, clock, lambda spec: _added(spec, taint, False))


def clean_to_be_deleted(node: Node, clock: Clock, *, cordon: bool) -> Reconcile[None]:
    """Take the mark of a deletion off, and the cordon. Raises what the server refuses."""
    yield from _changed(node, clock, lambda spec: _removed(spec, TO_BE_DELETED, cordon))


def clean_candidate(node: Node, clock: Clock) -> Reconcile[None]:
    """Take the mark of a candidate off. Raises what the server refuses."""
    yield from _changed(node, clock, lambda spec: _removed(spec, DELETION_CANDIDATE, False))


def _second(clock: Clock) -> str:
    return str(clock() // SECOND)


def _changed(node: Node, clock: Clock, change: Callable[[Tree], Tree | None]) -> Reconcile[None]:
    """Write a changed spec; where there is nothing to change, after a look at the server's node."""
    until, tree, fresh = clock() + _LONGEST, node.tree, False
    while True:
        spec = change(tree.get("spec") or {})
        if spec is None:
            if fresh:
                return
        else:
            try:
                yield from calls.update(NODES, {**tree, "spec": spec})
            except ApiError as error:
                if not is_conflict(error) or clock() >= until:
                    raise
                yield Sleep(_INTERVAL, "autoscaler.conflict")
            else:
                return
        found = yield from calls.get(NODES, "", node.name)
        tree, fresh = found.tree, True


def _added(spec: Tree, taint: dict[str, Any], cordon: bool) -> Tree | None:
    taints = spec.get("taints") or []
    if any(each["key"] == taint["key"] for each in taints):
        return None
    more = {"unschedulable": True} if cordon else {}
    return {**spec, "taints": [*taints, taint], **more}


def _removed(spec: Tree, key: str, cordon: bool) -> Tree | None:
    taints = spec.get("taints") or []
    left = [each for each in taints if each["key"] != key]
    if len(left) == len(taints):
        return None
    gone = ("taints", "unschedulable") if cordon else ("taints",)
    kept = {name: value for name, value in spec.items() if name not in gone}
    return {**kept, "taints": left} if left else kept
