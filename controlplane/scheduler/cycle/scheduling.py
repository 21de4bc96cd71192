"""The scheduling cycle: from a popped pod to a node.

Upstream: `pkg/scheduler/schedule_one.go` (schedulingCycle and below). The snapshot is a copy, but
plugins read listers and nominations as they are at that moment, so others may come in between.

Points: `scheduler.cycle.pre-filter` between PreFilters that read listers, `scheduler.cycle.filter`,
`scheduler.cycle.post-filter`, `scheduler.cycle.score` before those extension points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from controlplane.decisions import Point
from controlplane.scheduler.columns.rows import Rows
from controlplane.scheduler.cycle.attempt import Attempt, Failure, ScheduleResult, SchedulingError
from controlplane.scheduler.cycle.evaluation import Evaluation, FilterFailed, PluginScores
from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework.fit_error import Diagnosis, FitError, NoNodesAvailableError
from controlplane.scheduler.framework.interface import Code, NodeToStatus, Status, StatusError
from controlplane.scheduler.framework.node_search import (
    NodeHeap,
    best_index,
    num_feasible_nodes_to_find,
)
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION
from controlplane.scheduler.framework.runtime import nominating_of
from controlplane.scheduler.state.snapshot import Snapshot

if TYPE_CHECKING:
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.effects import Effects
    from controlplane.scheduler.framework.runtime import Framework
    from controlplane.scheduler.state.node_info import NodeInfo

_POST_FILTER: Final = Point("scheduler.cycle.post-filter")
_SCORE: Final = Point("scheduler.cycle.score")
_FILTER: Final = Point("scheduler.cycle.filter")


EXPLAINED_NODES = 16
"""With at most this number of feasible nodes, their scores are kept for the log."""


class Search:
    """State that outlives a cycle: the start of the next search, its size, and answers of plugins."""

    def __init__(self, columns: Columns, percentage_of_nodes_to_score: int = 0) -> None:
        self.columns = columns
        self.evaluation = Evaluation(columns)
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.next_start_node_index = 0
        self.placement: Sequence[NodeInfo] | None = None
        """The nodes on which a pod group is tried at the moment; None: all."""

    @property
    def snapshot(self) -> Snapshot:
        """The cluster as this cycle sees it."""
        return self.columns.snapshot

    @property
    def nodes(self) -> Sequence[NodeInfo]:
        """The nodes that a pod may get."""
        return self.snapshot.node_info_list if self.placement is None else self.placement

    def node(self, name: str) -> NodeInfo | None:
        """The node of that name, None when there is none, or when it is in no placement of now."""
        node = self.snapshot.get(name)
        if self.placement is None or node is None or node in self.placement:
            return node
        return None

    def nodes_to_find(self, framework: Framework, candidates: int) -> int:
        """Return the number of feasible nodes that ends the search."""
        if not framework.plugins.score:
            return 1
        percentage = framework.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self.percentage_of_nodes_to_score
        return num_feasible_nodes_to_find(percentage, candidates)

    def find(self, attempt: Attempt, diagnosis: Diagnosis, wanted: int) -> Sequence[NodeInfo]:
        """Nodes that pass the filters, from the start index on (see `Evaluation.find`). Raises FilterFailed."""
        return self.evaluation.find(attempt, diagnosis, self.next_start_node_index, wanted)

    def rate(
        self, attempt: Attempt, feasible: Sequence[NodeInfo]
    ) -> tuple[Callable[[], list[int]], int]:
        """Total scores of feasible nodes, and the index of the best. Raises StatusError."""
        if not attempt.framework.plugins.score:
            same = [1] * len(feasible)
            return (lambda: same), best_index(same)
        rows = feasible if isinstance(feasible, Rows) else Rows.of(self.columns, feasible)
        status = attempt.framework.run_pre_score(attempt.state, attempt.pod, rows)
        if status is not None:
            raise StatusError(status)
        if len(rows) <= EXPLAINED_NODES:
            scores = self.evaluation.scores(attempt, rows)
            attempt.scores = scores_by_node(scores, rows)
            totals = sum((each.weighted for each in scores), np.zeros(len(rows), np.int64))
        else:
            totals = self.evaluation.totals(attempt, rows)
        return totals.tolist, self.evaluation.best(totals)


def scores_by_node(scores: Sequence[PluginScores], nodes: Rows) -> dict[str, dict[str, int]]:
    """Node -> plugin -> weighted score."""
    weighted = [(each.plugin, each.weighted.tolist()) for each in scores]
    return {
        node.name: {plugin: points[at] for plugin, points in weighted}
        for at, node in enumerate(nodes)
    }


def schedule(search: Search, attempt: Attempt, *, keep_totals: bool = False) -> Effects[None]:
    """Choose a node for the pod: sets `attempt.result`, or `attempt.failure`.

    A pod that fits nowhere is offered to the PostFilter plugins (preemption).
    """
    try:
        attempt.result = yield from schedule_pod(search, attempt, keep_totals=keep_totals)
    except NoNodesAvailableError as none:
        # # Its traceback has frames that refer to the attempt: a cycle that only the collector frees.
        attempt.failure = Failure(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, none.with_traceback(None))
    except FitError as unfit:
        yield _POST_FILTER
        attempt.failure = yield from _after_fit_error(attempt, unfit.with_traceback(None))
    except StatusError as failed:
        attempt.failure = Failure(Code.ERROR, SchedulingError(failed.status.message))


def _after_fit_error(attempt: Attempt, unfit: FitError) -> Effects[Failure]:
    framework = attempt.framework
    if not framework.plugins.post_filter:
        return Failure(Code.UNSCHEDULABLE, unfit, CLEAR_NOMINATION)
    statuses = unfit.diagnosis.node_to_status
    result, status = yield from framework.run_post_filter(attempt.state, attempt.pod, statuses)
    unfit.diagnosis.post_filter_msg = "" if status is None else status.message
    return Failure(Code.UNSCHEDULABLE, unfit, nominating_of(result))


def schedule_pod(
    search: Search, attempt: Attempt, *, keep_totals: bool = False
) -> Effects[ScheduleResult]:
    """Choose a node. Raises NoNodesAvailableError, FitError or StatusError."""
    count = len(search.nodes)
    if count == 0:
        raise NoNodesAvailableError
    search.columns.sync()
    found = yield from find_nodes_that_fit(search, attempt)
    feasible, batch = found.nodes, attempt.framework.batch
    if not feasible:
        raise FitError(attempt.pod, count, found.diagnosis)
    evaluated = len(feasible) + len(found.diagnosis.node_to_status)
    if len(feasible) == 1:
        chosen = feasible[0].name
        batch.store(attempt, found.hint, chosen, None)
        return ScheduleResult(chosen, evaluated, 1)
    yield _SCORE
    totals, best = search.rate(attempt, feasible)
    chosen = feasible[best].name
    if keep_totals:
        attempt.totals = [(node.name, total) for node, total in zip(feasible, totals())]

    def rest() -> NodeHeap:
        heap = NodeHeap([node.name for node in feasible], totals())
        heap.pop()
        return heap

    batch.store(attempt, found.hint, chosen, rest)
    return ScheduleResult(chosen, evaluated, len(feasible))


@attrs.frozen
class Found:
    """Feasible nodes in the order in which they were found, why others are not, and the hint."""

    nodes: Sequence[NodeInfo]
    diagnosis: Diagnosis
    hint: str = ""


def find_nodes_that_fit(search: Search, attempt: Attempt) -> Effects[Found]:
    """Nodes that pass the filters. Raises StatusError."""
    framework, state, pod = attempt.framework, attempt.state, attempt.pod
    diagnosis = Diagnosis()
    outcome = yield from framework.run_pre_filter(state, pod)
    diagnosis.unschedulable_plugins = dict(outcome.restricting)
    status = outcome.status
    if status is not None:
        if not status.is_rejected:
            raise StatusError(status)
        diagnosis.node_to_status.absent = status
        diagnosis.pre_filter_msg = status.message
        diagnosis.add_plugin_status(status)
        return Found([], diagnosis)
    yield _FILTER
    hint = framework.batch.node_hint(framework, attempt)
    expected = pod.status.nominated_node_name or hint
    if expected:
        # The node is likely the only one that fits: it is tried alone first.
        node = evaluate_nominated_node(search, framework, state, attempt, expected, diagnosis)
        if node is not None:
            return Found([node], diagnosis, hint)
    candidates = search.nodes
    if outcome.node_names is not None:
        named = [node for node in map(search.node, outcome.node_names) if node is not None]
        if len(named) > 1:
            named = framework.handle.choose_order("scheduler.cycle.pre-filter-nodes", named)
        candidates = named
        listed = " ".join(sorted(outcome.restricting))
        diagnosis.node_to_status.absent = fwk.unresolvable(
            f"node(s) didn't satisfy plugin(s) [{listed}]"
        )
    try:
        feasible = find_nodes_that_pass_filters(search, attempt, diagnosis, candidates)
    except FilterFailed as failed:
        _advance(search, failed.feasible + failed.refused)
        raise StatusError(failed.status) from failed
    _advance(search, len(feasible) + len(diagnosis.node_to_status))
    return Found(feasible, diagnosis, hint)


def _advance(search: Search, processed: int) -> None:
    search.next_start_node_index = (search.next_start_node_index + processed) % len(search.nodes)


def evaluate_nominated_node(
    search: Search,
    framework: Framework,
    state: CycleState,
    attempt: Attempt,
    name: str,
    diagnosis: Diagnosis,
) -> NodeInfo | None:
    """The node when the pod fits it; a failure is recorded, an error only ends the try."""
    node = search.node(name)
    if node is None:
        return None
    status = framework.run_filter_with_nominated_pods(state, attempt.pod, node)
    if status is None:
        return node
    if status.is_rejected:
        diagnosis.node_to_status.set(name, status)
        diagnosis.add_plugin_status(status)
    return None


def find_nodes_that_pass_filters(
    search: Search,
    attempt: Attempt,
    diagnosis: Diagnosis,
    candidates: Sequence[NodeInfo],
) -> Sequence[NodeInfo]:
    """Walk the candidates from the start index until one feasible node too many is met.

    That node is dropped again: neither feasible nor failed. It is what one worker does upstream.
    """
    framework = attempt.framework
    count = len(candidates)
    if count == 0:
        return []
    wanted = search.nodes_to_find(framework, count)
    start = search.next_start_node_index
    if not framework.plugins.filter:
        return [candidates[(start + i) % count] for i in range(wanted)]
    if candidates is search.snapshot.node_info_list:
        return search.find(attempt, diagnosis, wanted)
    return ask_each(attempt, diagnosis, candidates, start, wanted)


def ask_each(
    attempt: Attempt,
    diagnosis: Diagnosis,
    candidates: Sequence[NodeInfo],
    start: int,
    wanted: int,
) -> list[NodeInfo]:
    """The search among nodes that PreFilters named, usually few: each is asked. Raises FilterFailed."""
    framework, state, pod = attempt.framework, attempt.state, attempt.pod
    feasible: list[NodeInfo] = []
    statuses = diagnosis.node_to_status
    count = len(candidates)
    for i in range(count):
        node = candidates[(start + i) % count]
        status = framework.run_filter_with_nominated_pods(state, pod, node)
        if status is None:
            if len(feasible) == wanted:
                break
            feasible.append(node)
            continue
        if status.code == Code.ERROR:
            raise FilterFailed(status, len(feasible), len(statuses))
        statuses.set(node.name, status)
        diagnosis.add_plugin_status(status)
    return feasible


def single_node_failure(attempt: Attempt, status: Status) -> Failure:
    """A rejection after the choice (Reserve, Permit, waiting): a FitError about that node."""
    if not status.is_rejected:
        return Failure(Code.ERROR, SchedulingError(status.message))
    diagnosis = Diagnosis(NodeToStatus({attempt.node_name: status}))
    diagnosis.add_plugin_status(status)
    return Failure(status.code, FitError(attempt.pod, 1, diagnosis))


def eviction_failed(failure: Failure | None, problem: str) -> Failure | None:
    """The failure of a pod whose victims could not be evicted: it is nominated nowhere."""
    if failure is None or not isinstance(failure.err, FitError):
        return failure
    failure.err.diagnosis.post_filter_msg = f"preemption: {problem}"
    return attrs.evolve(failure, nominating=None)
