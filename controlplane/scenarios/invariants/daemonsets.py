"""Invariants of DaemonSets: one pod on a node after the other, and no more nodes without one than a rollout may have.

Upstream: pkg/controller/daemon/daemon_controller.go (`podsShouldBeOnNode`) and update.go (`rollingUpdate`).
Expectations promise both, as long as the manager lives and no answer to it is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.tree import is_ready
from controlplane.scenarios.engine.scenario import Invariant
from controlplane.scenarios.invariants.views import (
    ENDED,
    PODS,
    note,
    nothing_was_lost,
    pods_by_owner,
    stored,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.api.object import Object
    from controlplane.scenarios.engine.run import Run

__all__ = ["daemons_roll_within_their_limit", "daemons_wait_for_the_one_before"]

DAEMON_SETS = "/registry/daemonsets/"
NODES = "/registry/minions/"


def _by_node(run: Run) -> Iterator[tuple[Object[Any], dict[str, list[Object[Any]]]]]:
    """The DaemonSets that do not surge, with their pods by the node they are on or for."""
    from controlplane.controllers.workloads.daemon.placement import NoTargetNode, target_node
    from controlplane.controllers.workloads.daemon.rolling import max_surge

    pods = pods_by_owner(run, "DaemonSet")
    for owner in run.objects(DAEMON_SETS):
        view: Any = owner.view
        if max_surge(view, len(run.objects(NODES))):
            continue
        found: dict[str, list[Object[Any]]] = {}
        for pod in pods.get(owner.uid, ()):
            try:
                found.setdefault(target_node(pod.view), []).append(pod)
            except NoTargetNode:
                continue
        yield owner, found


def daemons_wait_for_the_one_before(after: str) -> Invariant:
    """A pod of a DaemonSet that does not surge begins on a node only when the one before it there is gone.

    A pod that has ended is not waited for once it is being deleted.
    """

    def check(run: Run) -> str | None:
        seen = note(run, "pods of DaemonSets seen")
        for _, by_node in _by_node(run):
            for node, pods in by_node.items():
                new = [pod for pod in pods if pod.uid not in seen]
                for pod in new:
                    seen[pod.uid] = True
                    before = [each for each in pods if each not in new and not _is_over(each)]
                    if before and nothing_was_lost(run):
                        return f"{pod.key} begins on {node}, where {before[0].name} still is"
        return None

    looks_at = stored(PODS, DAEMON_SETS)
    return Invariant("a daemon waits for the one before", check, (after,), looks_at=looks_at)


def _is_over(pod: Object[Any]) -> bool:
    phase = pod.tree.get("status", {}).get("phase")
    return phase in ENDED and bool(pod.metadata.get("deletionTimestamp"))


def daemons_roll_within_their_limit(after: str) -> Invariant:
    """A DaemonSet that does not surge takes down ready pods on at most `maxUnavailable` nodes at a time.

    For worlds in which nothing else deletes its pods, or makes them unready. A node on which the set may not run any
    more does not count.
    """

    def check(run: Run) -> str | None:
        from controlplane.controllers.workloads.daemon.placement import fit
        from controlplane.controllers.workloads.daemon.rolling import max_unavailable

        was_ready, taken = note(run, "daemons that were ready"), note(run, "daemons taken down")
        nodes: dict[str, Any] = {node.name: node.view for node in run.objects(NODES)}
        for owner, by_node in _by_node(run):
            down: set[str] = taken.setdefault(owner.uid, set())
            begun = False
            for node, pods in by_node.items():
                for pod in pods:
                    if is_ready(pod.tree) and not pod.metadata.get("deletionTimestamp"):
                        was_ready[pod.uid] = True
                        down.discard(node)
                    elif pod.metadata.get("deletionTimestamp") and was_ready.pop(pod.uid, False):
                        down.add(node)
                        begun = True
            down &= {node for node in nodes if fit(owner.view, nodes[node]).should_continue}
            most = max(1, max_unavailable(owner.view, len(nodes)))
            if begun and len(down) > most and nothing_was_lost(run):
                return (
                    f"DaemonSet {owner.key} has taken its pods down on {' and '.join(sorted(down))}"
                )
        return None

    looks_at = stored(PODS, DAEMON_SETS, NODES)
    return Invariant("a DaemonSet rolls within its limit", check, (after,), looks_at=looks_at)
