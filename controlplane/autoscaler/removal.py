"""Trials of the removal of nodes: whether all pods that move find another place.

Upstream: `simulator/cluster.go`, `simulator/scheduling/{hinting_simulator,hints,similar_pods}.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.autoscaler.drain import Draining, pods_to_move
from controlplane.autoscaler.nodes import TO_BE_DELETED, with_taint
from controlplane.autoscaler.pods import is_daemon_set_pod, same_for_scheduling
from controlplane.autoscaler.simulation import Placed, Simulation
from controlplane.controllers.common.ownership import controller_of
from controlplane.scheduler.cycle.binding import with_node_name

_MOST_SPECS = 10


@dataclass(frozen=True, slots=True)
class Removable:
    """A node that can go, and what becomes of its pods; risky where a budget lets them go only by turns."""

    node: Node
    pods: tuple[Pod, ...] = ()
    daemon_set_pods: tuple[Pod, ...] = ()
    on_completion: tuple[Pod, ...] = ()
    risky: bool = False

    def at_risk(self) -> Removable:
        """Return the same, marked as risky."""
        return replace(self, risky=True)


@dataclass(frozen=True, slots=True)
class Unremovable:
    """A node that cannot go, and why; with the pod that keeps it, where there is one."""

    node: str
    reason: str
    pod: Pod | None = None
    pod_reason: str = ""


class Placement:
    """Finds places for pods, first where they went before. Hints older than two rounds are forgotten."""

    def __init__(self) -> None:
        self._current: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def drop_old(self) -> None:
        """Begin a round."""
        self._old, self._current = self._current, {}

    def place(
        self,
        simulation: Simulation,
        pods: Sequence[Pod],
        acceptable: Callable[[str], bool] | None = None,
        *,
        stop: bool = False,
    ) -> list[tuple[Pod, str]]:
        """Put pods on nodes of the simulation; return those with a place. `stop` ends with the first without."""
        similar: dict[str, list[Pod]] = {}
        placed: list[tuple[Pod, str]] = []
        for pod in pods:
            node = self._by_hint(simulation, pod, acceptable)
            if not node and not _known_misfit(similar, pod):
                node = simulation.schedule_anywhere(pod, acceptable)
                if node:
                    self._current[_key(pod)] = node
                else:
                    _note_misfit(similar, pod)
            if node:
                placed.append((pod, node))
            elif stop:
                break
        return placed

    def _by_hint(
        self, simulation: Simulation, pod: Pod, acceptable: Callable[[str], bool] | None
    ) -> str:
        key = _key(pod)
        node = self._current.get(key, self._old.get(key, ""))
        if not node or simulation.get(node) is None:
            return ""
        if acceptable is not None and not acceptable(node):
            return ""
        if simulation.schedule(pod, node) is not None:
            return ""
        self._current[key] = node
        return node


def _key(pod: Pod) -> str:
    return pod.uid or pod.key


def _known_misfit(similar: Mapping[str, list[Pod]], pod: Pod) -> bool:
    owner = controller_of(pod)
    known = similar.get(owner.uid, ()) if owner is not None else ()
    return any(same_for_scheduling(pod, each) for each in known)


def _note_misfit(similar: dict[str, list[Pod]], pod: Pod) -> None:
    owner = controller_of(pod)
    if owner is None or is_daemon_set_pod(pod):
        return
    known = similar.setdefault(owner.uid, [])
    if len(known) < _MOST_SPECS:
        known.append(pod)


def try_removal(
    simulation: Simulation,
    placement: Placement,
    name: str,
    destinations: Mapping[str, object],
    draining: Draining,
) -> Removable | Unremovable:
    """Try to remove a node. A success stays in the simulation; a failure leaves it as it was."""
    placed = simulation.get(name)
    if placed is None:
        return Unremovable(name, "NoNodeInfo")
    moves = pods_to_move(placed.pods, draining)
    if moves.blocking is not None and moves.verdict is not None:
        return Unremovable(name, "BlockedByPod", moves.blocking, moves.verdict.reason)
    simulation.fork()
    if not _emptied(simulation, placement, name, moves.pods, destinations, draining.now):
        simulation.revert()
        return Unremovable(name, "NoPlaceToMovePods")
    simulation.commit()
    return Removable(placed.node, moves.pods, moves.daemon_set_pods, moves.on_completion)


def _emptied(
    simulation: Simulation,
    placement: Placement,
    name: str,
    pods: Sequence[Pod],
    destinations: Mapping[str, object],
    now: int,
) -> bool:
    """Find places for pods; meanwhile the node stands there empty, so that its domain still counts."""
    placed = simulation.get(name)
    assert placed is not None
    simulation.put(Placed(with_taint(placed.node, TO_BE_DELETED, "NoSchedule", now)))
    moved = [with_node_name(pod, "") for pod in pods]
    found = placement.place(
        simulation, moved, lambda node: node != name and node in destinations, stop=True
    )
    if len(found) != len(moved):
        return False
    simulation.drop(name)
    return True
