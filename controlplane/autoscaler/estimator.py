"""The number of new nodes that groups of pods need: packing by the scheduler's filters.

Upstream: `estimator/{binpacking_estimator,decreasing_pod_orderer,*threshold*}.go`. The limit of time is not
kept: a decision takes none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from controlplane.api.go_sort import sort_slice
from controlplane.api.labels import SelectorError, from_label_selector
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import pod_requests
from controlplane.autoscaler.arithmetic import ratio
from controlplane.autoscaler.groups import ZERO, NodeGroup, Template
from controlplane.autoscaler.simulation import HOSTNAME, Refusal, Simulation, fresh

PodGroup = Sequence[Pod]
_SPREAD: Final = "node(s) didn't match pod topology spread constraints"


class Limiter:
    """The most new nodes of an estimate; each limit is 0 for none, and below 0 for no node at all."""

    def __init__(self, limits: Iterable[int]) -> None:
        self._most = 0
        self._added = 0
        for limit in limits:
            if self._most < 0 or limit < 0:
                self._most = -1
            elif limit > 0 and (self._most == 0 or self._most > limit):
                self._most = limit

    def allows(self) -> bool:
        """Return whether one more node may be added, and count it."""
        if self._most < 0 or 0 < self._most <= self._added:
            return False
        self._added += 1
        return True


def group_limit(group: NodeGroup, similar: Iterable[NodeGroup]) -> int:
    """Return the room of a group and those like it as a limit."""
    return group.room + sum(each.room for each in similar) or -1


def cluster_limit(most: int, present: int) -> int:
    """Return the limit that the greatest number of nodes of the cluster sets; 0 is none."""
    if most == 0:
        return 0
    return -1 if most < 0 or most <= present else most - present


def ordered(groups: Iterable[PodGroup], template: Template) -> list[PodGroup]:
    """Return groups of pods, those with the greatest share of a node first."""
    scored = [(_share(group[0], template) if group else 0.0, group) for group in groups]
    sort_slice(scored, lambda left, right: left[0] > right[0])
    return [group for _, group in scored]


def _share(pod: Pod, template: Template) -> float:
    wanted, allocatable = pod_requests(pod), template.node.status.allocatable
    cpu, memory = allocatable.get("cpu", ZERO), allocatable.get("memory", ZERO)
    score = 0.0
    if cpu.milli_value() > 0:
        score += float(wanted.get("cpu", ZERO).milli_value()) / float(cpu.milli_value())
    if memory.value() > 0:
        score += float(wanted.get("memory", ZERO).value()) / float(memory.value())
    return score


def estimate(
    simulation: Simulation,
    groups: Iterable[PodGroup],
    template: Template,
    limiter: Limiter,
    *,
    fast_path: bool = False,
) -> tuple[int, list[Pod]]:
    """Return the number of new nodes with pods, and the pods placed, in order. The simulation stays as it was."""
    order = ordered(groups, template)
    fast = _fast_path(order, template) if fast_path else None
    if fast is not None:
        order.append(order.pop(fast))
    simulation.fork()
    packing = _Packing(simulation, template, limiter)
    more = True
    for at, group in enumerate(order):
        left = packing.on_new_nodes_so_far(group)
        if more:
            last = fast is not None and at == len(order) - 1
            more = packing.extrapolated(left) if last else packing.on_more_nodes(left)
    simulation.revert()
    return len(packing.used), packing.placed


class _Packing:
    """One estimate under way. Methods that may add nodes return whether more may be added."""

    def __init__(self, simulation: Simulation, template: Template, limiter: Limiter) -> None:
        self._simulation = simulation
        self._template = template
        self._limiter = limiter
        self._new: dict[str, None] = {}
        self._last = ""
        self.used: dict[str, None] = {}
        self.placed: list[Pod] = []

    def _place(self, pod: Pod, node: str) -> None:
        self.used[node] = None
        self.placed.append(pod)

    def _add_node(self) -> None:
        suffix = f"e-{len(self._new)}"
        self._last = f"{self._template.node.metadata.name}-{suffix}"
        self._new[self._last] = None
        self._simulation.put(fresh(self._template, self._last, suffix))

    def on_new_nodes_so_far(self, pods: PodGroup) -> PodGroup:
        """Place pods until one does not fit; return it and those after it."""
        for at, pod in enumerate(pods):
            node = self._simulation.schedule_anywhere(pod, self._new.__contains__)
            if not node:
                return pods[at:]
            self._place(pod, node)
        return ()

    def on_more_nodes(self, pods: PodGroup) -> bool:
        """Place pods on the last new node, or on one more."""
        for pod in pods:
            if self._last and self._on_present(pod):
                continue
            if self._last and self._last not in self.used:
                return True  # an empty node was refused: another one would be too
            if not self._limiter.allows():
                return False
            self._add_node()
            if self._simulation.schedule(pod, self._last) is not None:
                break
            self._place(pod, self._last)
        return True

    def _on_present(self, pod: Pod) -> bool:
        refusal = self._simulation.schedule(pod, self._last)
        if refusal is None:
            self._place(pod, self._last)
            return True
        if not _spread_by_host(pod) or not _names_spread(refusal):
            return False
        last = self._last
        node = self._simulation.schedule_anywhere(pod, lambda name: name != last)
        if node:
            self._place(pod, node)
        return bool(node)

    def extrapolated(self, pods: PodGroup) -> bool:
        """Fill one node, and take it that further ones hold as many pods."""
        if not pods:
            return True
        if not self._limiter.allows():
            return False
        self._add_node()
        each = 0
        for pod in pods:
            if self._simulation.schedule(pod, self._last) is not None:
                break
            self._place(pod, self._last)
            each += 1
        if each == 0:
            return True
        for number in range(1, -(-len(pods) // each)):
            if not self._limiter.allows():
                return False
            for pod in pods[number * each : (number + 1) * each]:
                self._place(pod, f"{self._last}-fake-{number}")
        return True


def _names_spread(refusal: Refusal) -> bool:
    return _SPREAD in refusal.reasons


def _spread_by_host(pod: Pod) -> bool:
    return any(each.topology_key == HOSTNAME for each in pod.spec.topology_spread_constraints)


def _anti_affinity(pod: Pod) -> tuple[tuple[str, bool], ...]:
    """Return, for each required term, its topology key and whether it selects the pod itself."""
    affinity = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None
    terms = affinity.required_during_scheduling_ignored_during_execution if affinity else ()
    return tuple(
        (term.topology_key, _selects(term.label_selector, pod.metadata.labels)) for term in terms
    )


def _selects(selector: object, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    try:
        return from_label_selector(selector).matches(labels)  # type: ignore[arg-type]
    except SelectorError:
        return False


def _fast_path(groups: Sequence[PodGroup], template: Template) -> int | None:
    """Return the position of the group whose extrapolation saves the most trials."""
    best, saved = None, 0
    for at, group in enumerate(groups):
        if not group:
            continue
        nodes = _nodes_needed(group, template)
        saves = len(group) - len(group) // nodes if nodes > 0 else 0
        if saves >= saved and _extrapolates(group[0]):
            best, saved = at, saves
    return best


def _extrapolates(pod: Pod) -> bool:
    if pod.spec.topology_spread_constraints:
        return False
    return all(key == HOSTNAME for key, _ in _anti_affinity(pod))


def _nodes_needed(group: PodGroup, template: Template) -> int:
    pod = group[0]
    needed = [len(group) if (HOSTNAME, True) in _anti_affinity(pod) else 0]
    containers = pod.spec.containers
    requests = containers[0].resources.requests if containers else None
    if requests:
        capacity = template.node.status.capacity
        for name in ("cpu", "memory"):
            amount = requests.get(name, ZERO).approximate_float()
            whole = capacity.get(name, ZERO).approximate_float()
            share = ratio(len(group) * amount, whole)
            needed.append(math.ceil(share) if math.isfinite(share) else 0)
    return max(needed)
