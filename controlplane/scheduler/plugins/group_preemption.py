"""Victims for a whole pod group: which units to remove anywhere in the cluster so that the group fits.

Upstream: `pkg/scheduler/framework/preemption/{podgrouppreemption,types}.go`. A unit is a pod, or all pods of a
group that is disrupted as one. The question whether the group fits is answered by the group algorithm on the
nodes as they are at that moment; so nodes are changed in place here, and the caller restores them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

import attrs

from controlplane.api.scheduling import POD_GROUP_MODE, pod_group_priority
from controlplane.scheduler.framework.interface import Status, unresolvable, unschedulable
from controlplane.scheduler.plugins.importance import pod_start_time
from controlplane.scheduler.plugins.preemption import Budget

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.scheduling import PodGroup
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.state.listers import Lister
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

NEVER = "Never"
LOWER_PRIORITY = "PreemptLowerPriority"
_NOT_ELIGIBLE = unschedulable("not eligible due to preemptionPolicy=Never.")
NO_VICTIMS = unresolvable("No preemption victims found for incoming preemptor")

Fits = Callable[[], "Effects[Status | None]"]
"""Runs the group algorithm on the nodes as they are now; None: the group can be scheduled."""


@attrs.frozen
class GroupPreemptor:
    """A group that needs room, and the pods of it that wait."""

    group: PodGroup
    pods: tuple[Pod, ...]

    @property
    def priority(self) -> int:
        """The group's priority: only what is below it can be a victim."""
        return pod_group_priority(self.group)

    @property
    def preemption_policy(self) -> str:
        """Never, if any pod says so."""
        never = any(pod.spec.preemption_policy == NEVER for pod in self.pods)
        return NEVER if never else LOWER_PRIORITY


@attrs.define(eq=False)
class Unit:
    """Pods that are removed together."""

    pods: list[PodInfo]
    priority: int
    started: int
    """Start of the pod that was met first."""

    @property
    def is_group(self) -> bool:
        """Return whether the first pod is in any group, however that is disrupted."""
        return self.pods[0].pod.spec.scheduling_group is not None


def disrupted_as_one(pod: Pod, groups: Lister[PodGroup]) -> PodGroup | None:
    """The pod's group, if all pods of it have to be removed together."""
    member = pod.spec.scheduling_group
    if member is None:
        return None
    group = groups.get(pod.namespace, member.pod_group_name)
    if group is None or group.spec.disruption_mode != POD_GROUP_MODE:
        return None
    return group


def units(nodes: Sequence[NodeInfo], groups: Lister[PodGroup], now: int) -> list[Unit]:
    """All units on the nodes, in the order in which they are met."""
    found: dict[str, Unit] = {}
    for node in nodes:
        for info in node.pods:
            pod = info.pod
            group = disrupted_as_one(pod, groups)
            started = pod_start_time(pod, now)
            if group is None:
                found[pod.uid] = Unit([info], pod.spec.priority or 0, started)
            elif group.metadata.uid in found:
                found[group.metadata.uid].pods.append(info)
            else:
                found[group.metadata.uid] = Unit([info], pod_group_priority(group), started)
    return list(found.values())


def more_important(a: Unit, b: Unit) -> bool:
    """Return whether `a` is kept rather than `b`.

    By priority; groups before pods; pods by age; groups by size, then by age.
    """
    if a.priority != b.priority:
        return a.priority > b.priority
    if a.is_group != b.is_group:
        return a.is_group
    if a.is_group and len(a.pods) != len(b.pods):
        return len(a.pods) > len(b.pods)
    return a.started < b.started


def split_units(found: Sequence[Unit], budgets: Sequence[Budget]) -> tuple[list[Unit], list[Unit]]:
    """(units whose removal violates a budget, others). The first violated pod decides about its unit."""
    allowed = [budget.status.disruptions_allowed for budget, _ in budgets]
    violating: list[Unit] = []
    clean: list[Unit] = []
    for unit in found:
        violated = any(_violates(info.pod, budgets, allowed) for info in unit.pods)
        (violating if violated else clean).append(unit)
    return violating, clean


def _violates(pod: Pod, budgets: Sequence[Budget], allowed: list[int]) -> bool:
    if not pod.labels:
        return False
    for at, (budget, selector) in enumerate(budgets):
        if (
            budget.namespace != pod.namespace
            or not selector.matches(pod.labels)
            or pod.name in budget.status.disrupted_pods
        ):
            continue
        allowed[at] -= 1
        if allowed[at] < 0:
            return True
    return False


def select_victims(
    preemptor: GroupPreemptor,
    nodes: Mapping[str, NodeInfo],
    found: Sequence[Unit],
    budgets: Sequence[Budget],
    fits: Fits,
    changed: Callable[[str], None] = lambda _node: None,
    choose_order: Callable[[str, list[Any]], list[Any]] = lambda _kind, options: options,
) -> Effects[tuple[list[Pod], Status | None]]:
    """Victims, most important first, or a status that says why there are none.

    All candidates are removed; if the group fits then, as many as possible come back, most important first, those
    protected by a budget before others. `changed` is told of every node that was changed.
    """
    if preemptor.preemption_policy == NEVER:
        return [], _NOT_ELIGIBLE
    candidates = [unit for unit in found if unit.priority < preemptor.priority]
    if not candidates:
        return [], NO_VICTIMS
    change = _Changes(nodes, changed)
    for unit in candidates:
        change.remove(unit)
    refused = yield from fits()
    if refused is not None:
        return [], refused
    if len(candidates) > 1:
        candidates = choose_order("scheduler.preemption.units", candidates)
    candidates.sort(key=_BY_IMPORTANCE)
    violating, clean = split_units(candidates, budgets)
    victims: list[Unit] = []
    for unit in (*violating, *clean):
        change.put_back(unit)
        if (yield from fits()) is not None:
            change.remove(unit)
            victims.append(unit)
    victims.sort(key=_BY_IMPORTANCE)
    return [info.pod for unit in victims for info in unit.pods], None


class _Changes:
    """Takes units off their nodes and puts them back."""

    def __init__(self, nodes: Mapping[str, NodeInfo], changed: Callable[[str], None]) -> None:
        self._nodes = nodes
        self._changed = changed

    def remove(self, unit: Unit) -> None:
        for info in unit.pods:
            name = info.pod.spec.node_name
            self._nodes[name].remove_pod(info.pod)
            self._changed(name)

    def put_back(self, unit: Unit) -> None:
        for info in unit.pods:
            name = info.pod.spec.node_name
            self._nodes[name].add_pod(info)
            self._changed(name)


def _compare(a: Unit, b: Unit) -> int:
    if more_important(a, b):
        return -1
    return 1 if more_important(b, a) else 0


_BY_IMPORTANCE = cmp_to_key(_compare)
