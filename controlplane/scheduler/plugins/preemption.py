"""Dry run of preemption: the victims on each node, and the node with the least harm.

Upstream: `pkg/scheduler/framework/preemption/preemption.go`,
`plugins/defaultpreemption/default_preemption.go` (SelectVictimsOnNode).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from operator import is_
from typing import TYPE_CHECKING, Any

import attrs

from controlplane.api.labels import Selector, SelectorError, from_label_selector
from controlplane.scheduler.framework.interface import (
    Code,
    Filters,
    NodeToStatus,
    Status,
    StatusError,
    error,
    unresolvable,
)
from controlplane.scheduler.plugins.importance import more_important, pod_start_time
from controlplane.scheduler.state.snapshot import ChangeReader, Snapshot

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.policy import PodDisruptionBudget
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


@attrs.frozen
class Candidate:
    """A node that would fit the pod without the victims (most important first)."""

    node_name: str
    victims: list[Pod]
    pdb_violations: int


@attrs.define
class DryRun:
    """Candidates, and why other nodes are none."""

    candidates: list[Candidate] = attrs.Factory(list)
    statuses: NodeToStatus = attrs.Factory(NodeToStatus)
    errors: list[str] = attrs.Factory(list)
    enough: bool = False
    """The search ended because enough candidates were found."""


class SameStatuses(NodeToStatus):
    """One status for a number of nodes that are never asked for by name."""

    __slots__ = ("_count", "_status")

    def __init__(self, status: Status, count: int) -> None:
        super().__init__()
        self._status = status
        self._count = count

    def __len__(self) -> int:
        return self._count

    def reason_counts(self) -> dict[str, int]:
        """The reasons of the status, each as often as there are nodes."""
        return dict.fromkeys(self._status.reasons, self._count) if self._count else {}


class LowestPriorities:
    """The lowest pod priority per node: below it no pod can be preempted."""

    __slots__ = ("_lowest", "_reader")

    def __init__(self) -> None:
        self._reader = ChangeReader()
        self._lowest: list[int] = []

    def anywhere(self, snapshot: Snapshot) -> int:
        """The lowest priority of any pod; very high without pods."""
        infos = snapshot.node_info_list
        rows = self._reader.changed(snapshot)
        if rows is None:
            self._lowest = [_lowest_priority(info) for info in infos]
        else:
            for row in rows:
                self._lowest[row] = _lowest_priority(infos[row])
        return min(self._lowest, default=_ABOVE_ALL)


_ABOVE_ALL = 1 << 40


def _lowest_priority(info: NodeInfo) -> int:
    return min((each.pod.spec.priority or 0 for each in info.pods), default=_ABOVE_ALL)


def dry_run(
    filters: Filters,
    state: CycleState,
    pod: Pod,
    nodes: Sequence[NodeInfo],
    budgets: Sequence[PodDisruptionBudget],
    offset: int,
    wanted: int,
    known: Known | None = None,
    select: Select | None = None,
) -> DryRun:
    """Try preemption on copies of the nodes, from `offset` on.

    Ends when a candidate without violated budgets exists and there are `wanted` candidates. Those
    without violations come first in the result. `known` has what earlier preemptors with the same
    spec found on nodes that have not changed since, and is added to. `select` chooses
    victims on a node in place of `select_victims`.
    """
    out = DryRun()
    clean: list[Candidate] = []
    violating: list[Candidate] = []
    selectors = compile_budgets(budgets)
    priority = pod.spec.priority or 0
    for i in range(len(nodes)):
        info = nodes[(offset + i) % len(nodes)]
        if select is None and not any(
            (each.pod.spec.priority or 0) < priority for each in info.pods
        ):
            out.statuses.set(info.name, NO_VICTIMS)
            continue
        status, victims, violations = _tried(filters, state, pod, info, selectors, known, select)
        if status is not None:
            if status.code == Code.ERROR:
                out.errors.append(status.message)
            out.statuses.set(info.name, status)
            continue
        if not victims:
            status = error(f'expected at least one victim pod on node "{info.name}"')
            out.errors.append(status.message)
            out.statuses.set(info.name, status)
            continue
        kind = violating if violations else clean
        if len(kind) < wanted:
            kind.append(Candidate(info.name, victims, violations))
        if clean and len(clean) + len(violating) >= wanted:
            out.enough = True
            break
    out.candidates = clean + violating
    return out


Tried = tuple["Status | None", "list[Pod]", int]
"""The answer of `select_victims` for a node: a status, or victims and violations."""
Exempt = Callable[["Pod"], bool]
"""Returns True for a pod that must not be preempted. May raise StatusError."""
Select = Callable[
    ["Filters", "CycleState", "Pod", "NodeInfo", "Sequence[Budget]"], "tuple[list[Pod], int]"
]
"""As `select_victims`."""
Known = dict[str, tuple[int, "list[Pod]", Tried]]
"""By node: its generation, the pods nominated to it, and what was found then."""


def _tried(
    filters: Filters,
    state: CycleState,
    pod: Pod,
    info: NodeInfo,
    budgets: Sequence[Budget],
    known: Known | None,
    select: Select | None,
) -> Tried:
    nominated = [each.pod for each in filters.handle.nominated_pods(info.name)]
    # A pod is not in its own way, so what holds for others does not hold with its own nomination.
    if any(other.uid == pod.uid for other in nominated):
        known = None
    if known is not None:
        before = known.get(info.name)
        if (
            before is not None
            and before[0] == info.generation
            and len(before[1]) == len(nominated)
            and all(map(is_, before[1], nominated))
        ):
            return before[2]
    found: Tried
    try:
        victims, violations = (select or select_victims)(
            filters, state.clone(), pod, info.clone(), budgets
        )
        found = (None, victims, violations)
    except StatusError as failed:
        found = (failed.status, [], 0)
    if known is not None:
        known[info.name] = (info.generation, nominated, found)
    return found


Budget = tuple[Any, Selector]
"""A disruption budget with its selector."""


def compile_budgets(budgets: Sequence[PodDisruptionBudget]) -> list[Budget]:
    """Budgets that can match anything at all."""
    out: list[Budget] = []
    for budget in budgets:
        try:
            selector = from_label_selector(budget.spec.selector)
        except SelectorError:
            continue
        if not selector.empty() and selector.selectable():
            out.append((budget, selector))
    return out


def select_victims(
    filters: Filters,
    state: CycleState,
    pod: Pod,
    node: NodeInfo,
    budgets: Sequence[Budget],
    exempt: Exempt | None = None,
) -> tuple[list[Pod], int]:
    """Victims on `node` (a copy, changed here) and violated budgets. Raises StatusError."""
    priority = pod.spec.priority or 0
    potential = [info for info in node.pods if (info.pod.spec.priority or 0) < priority]
    if exempt is not None:
        potential = [info for info in potential if not exempt(info.pod)]
    if not potential:
        raise StatusError(
            NO_VICTIMS
            if exempt is None
            else unresolvable(f"No victims found on node {node.name} for preemptor pod {pod.name}")
        )

    def remove(info: PodInfo) -> None:
        node.remove_pod(info.pod)
        _check(filters.run_remove_pod(state, pod, info, node))

    def put_back(info: PodInfo) -> None:
        node.add_pod(info)
        _check(filters.run_add_pod(state, pod, info, node))

    for info in potential:
        remove(info)
    _check(filters.run_filter_with_nominated_pods(state, pod, node))
    order = by_importance(state.now)
    potential.sort(key=order)
    violating, clean = split_by_budgets(potential, budgets)
    victims: list[PodInfo] = []
    violations = 0
    for group in (violating, clean):
        for info in group:
            put_back(info)
            if filters.run_filter_with_nominated_pods(state, pod, node) is not None:
                remove(info)
                victims.append(info)
                violations += group is violating
    if violating and clean:
        victims.sort(key=order)
    return [info.pod for info in victims], violations


def _check(status: Status | None) -> None:
    if status is not None:
        raise StatusError(status)


def by_importance(now: int) -> Callable[[PodInfo], Any]:
    """A sort key: most important first."""

    def compare(a: PodInfo, b: PodInfo) -> int:
        if more_important(a.pod, b.pod, now):
            return -1
        return 1 if more_important(b.pod, a.pod, now) else 0

    return cmp_to_key(compare)


def split_by_budgets(
    infos: Sequence[PodInfo], budgets: Sequence[Budget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """(pods whose removal violates a budget, others), walking the pods in order."""
    allowed = [budget.status.disruptions_allowed for budget, _ in budgets]
    violating: list[PodInfo] = []
    clean: list[PodInfo] = []
    for info in infos:
        pod = info.pod
        violated = False
        for i, (budget, selector) in enumerate(budgets):
            if (
                budget.namespace != pod.namespace
                or not pod.labels
                or not selector.matches(pod.labels)
                or pod.name in budget.status.disrupted_pods
            ):
                continue
            allowed[i] -= 1
            violated = violated or allowed[i] < 0
        (violating if violated else clean).append(info)
    return violating, clean


def best_candidates(candidates: Sequence[Candidate], now: int) -> list[Candidate]:
    """Candidates that are equally good by every criterion."""
    criteria: list[Callable[[Candidate], int]] = [
        lambda c: c.pdb_violations,
        lambda c: c.victims[0].spec.priority or 0,
        lambda c: sum((pod.spec.priority or 0) + (1 << 31) for pod in c.victims),
        lambda c: len(c.victims),
        lambda c: -_earliest_start(c.victims, now),
    ]
    best = list(candidates)
    for criterion in criteria:
        if len(best) == 1:
            break
        lowest = min(map(criterion, best))
        best = [each for each in best if criterion(each) == lowest]
    return best


def select_candidate(
    candidates: Sequence[Candidate],
    now: int,
    choose_order: Callable[[str, list[Any]], list[Any]],
) -> Candidate:
    """The best candidate; what is still a tie upstream leaves to its maps."""
    best = best_candidates(candidates, now)
    if len(best) == 1:
        return best[0]
    chosen: Candidate = choose_order("scheduler.preemption.candidate", best)[0]
    return chosen


def _earliest_start(victims: Sequence[Pod], now: int) -> int:
    """Earliest start among the victims of the highest priority."""
    highest = max(pod.spec.priority or 0 for pod in victims)
    return min(pod_start_time(p, now) for p in victims if (p.spec.priority or 0) == highest)
