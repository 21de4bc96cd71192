"""The scheduling cycle: from a popped pod to a node.

Upstream: `pkg/scheduler/schedule_one.go` (schedulingCycle and below).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.cycle.attempt import Attempt, Failure, ScheduleResult, SchedulingError
from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework.fit_error import Diagnosis, FitError, NoNodesAvailableError
from controlplane.scheduler.framework.interface import Code, NodeToStatus, Status, StatusError
from controlplane.scheduler.framework.node_search import (
    NodeHeap,
    best_index,
    num_feasible_nodes_to_find,
)
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION
from controlplane.scheduler.framework.runtime import nominating_of, total_scores
from controlplane.scheduler.state.snapshot import Snapshot

if TYPE_CHECKING:
    from controlplane.scheduler.cycle.evaluation import FastPath
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.runtime import Framework
    from controlplane.scheduler.state.node_info import NodeInfo


FAST_PATH_NODES = 64
"""Below so many nodes, asking each costs less than arrays."""
EXPLAINED_NODES = 16
"""With at most so many feasible nodes, their scores are kept for the log."""


@attrs.define
class Search:
    """What outlives a cycle: where the next search starts, and how much it covers."""

    snapshot: Snapshot
    percentage_of_nodes_to_score: int = 0
    next_start_node_index: int = 0
    fast: bool = True
    """Whether whole-cluster arrays may answer instead of asking node by node."""
    fast_path_nodes: int = FAST_PATH_NODES
    _fast_path: FastPath | None = None

    def fast_path(self) -> FastPath | None:
        """The whole-cluster arrays, up to date; None for small clusters and without numpy."""
        self.snapshot.columns = None
        if not self.fast or len(self.snapshot) < self.fast_path_nodes:
            return None
        if self._fast_path is None:
            try:
                from controlplane.scheduler.cycle.evaluation import FastPath
            except ModuleNotFoundError:
                self.fast = False
                return None
            self._fast_path = FastPath(self.snapshot)
        columns = self._fast_path.columns
        columns.sync(self.snapshot)
        if not columns.safe:
            return None
        self.snapshot.columns = columns
        return self._fast_path

    def nodes_to_find(self, framework: Framework, candidates: int) -> int:
        """How many feasible nodes end the search."""
        if not framework.plugins.score:
            return 1
        percentage = framework.percentage_of_nodes_to_score
        if percentage is None:
            percentage = self.percentage_of_nodes_to_score
        return num_feasible_nodes_to_find(percentage, candidates)


def schedule(search: Search, attempt: Attempt, *, keep_totals: bool = False) -> None:
    """Choose a node for the pod: sets `attempt.result`, or `attempt.failure`.

    A pod that fits nowhere is offered to the PostFilter plugins (preemption).
    """
    try:
        attempt.result = schedule_pod(search, attempt, keep_totals=keep_totals)
    except NoNodesAvailableError as none:
        attempt.failure = Failure(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, none)
    except FitError as unfit:
        attempt.failure = _after_fit_error(attempt, unfit)
    except StatusError as failed:
        attempt.failure = Failure(Code.ERROR, SchedulingError(failed.status.message))


def _after_fit_error(attempt: Attempt, unfit: FitError) -> Failure:
    framework = attempt.framework
    if not framework.plugins.post_filter:
        return Failure(Code.UNSCHEDULABLE, unfit, CLEAR_NOMINATION)
    statuses = unfit.diagnosis.node_to_status
    result, status = framework.run_post_filter(attempt.state, attempt.pod, statuses)
    unfit.diagnosis.post_filter_msg = "" if status is None else status.message
    return Failure(Code.UNSCHEDULABLE, unfit, nominating_of(result))


def schedule_pod(search: Search, attempt: Attempt, *, keep_totals: bool = False) -> ScheduleResult:
    """Choose a node. Raises NoNodesAvailableError, FitError or StatusError."""
    count = len(search.snapshot)
    if count == 0:
        raise NoNodesAvailableError
    search.fast_path()  # PreFilters may use the columns too
    found = find_nodes_that_fit(search, attempt)
    feasible, batch = found.nodes, attempt.framework.batch
    if not feasible:
        raise FitError(attempt.pod, count, found.diagnosis)
    evaluated = len(feasible) + len(found.diagnosis.node_to_status)
    if len(feasible) == 1:
        chosen = feasible[0].name
        batch.store(attempt, found.hint, chosen, None)
        return ScheduleResult(chosen, evaluated, 1)
    totals, best = choose_node(search, attempt, feasible)
    chosen = feasible[best].name
    if keep_totals:
        attempt.totals = [(node.name, total) for node, total in zip(feasible, totals())]

    def rest() -> NodeHeap:
        heap = NodeHeap([node.name for node in feasible], totals())
        heap.pop()
        return heap

    batch.store(attempt, found.hint, chosen, rest)
    return ScheduleResult(chosen, evaluated, len(feasible))


def choose_node(
    search: Search, attempt: Attempt, feasible: Sequence[NodeInfo]
) -> tuple[Callable[[], list[int]], int]:
    """Score the feasible nodes: total scores, and the index of the best. Raises StatusError."""
    framework = attempt.framework
    fast = search.fast_path()
    if fast is None or not fast.has_rows(feasible) or not framework.plugins.score:
        totals = prioritize_nodes(attempt, feasible)
        return (lambda: totals), best_index(totals)
    status = framework.run_pre_score(attempt.state, attempt.pod, feasible)
    if status is not None:
        raise StatusError(status)
    array = fast.totals(attempt, feasible)
    return array.tolist, fast.best(array)


@attrs.frozen
class Found:
    """Feasible nodes in the order in which they were found, why others are not, and the hint."""

    nodes: Sequence[NodeInfo]
    diagnosis: Diagnosis
    hint: str = ""


def find_nodes_that_fit(search: Search, attempt: Attempt) -> Found:
    """Nodes that pass the filters. Raises StatusError."""
    framework, state, pod = attempt.framework, attempt.state, attempt.pod
    snapshot = search.snapshot
    diagnosis = Diagnosis()
    outcome = framework.run_pre_filter(state, pod)
    diagnosis.unschedulable_plugins = dict(outcome.restricting)
    status = outcome.status
    if status is not None:
        if not status.is_rejected:
            raise StatusError(status)
        diagnosis.node_to_status.absent = status
        diagnosis.pre_filter_msg = status.message
        diagnosis.add_plugin_status(status)
        return Found([], diagnosis)
    hint = framework.batch.node_hint(framework, attempt)
    expected = pod.status.nominated_node_name or hint
    if expected:
        # The node is likely the only one that fits: it is tried alone first.
        node = evaluate_nominated_node(snapshot, framework, state, attempt, expected, diagnosis)
        if node is not None:
            return Found([node], diagnosis, hint)
    candidates: Sequence[NodeInfo] = snapshot.node_info_list
    if outcome.node_names is not None:
        infos = snapshot.node_info_map
        names = [name for name in outcome.node_names if name in infos]
        if len(names) > 1:
            names = framework.handle.choose_order("scheduler.cycle.pre-filter-nodes", names)
        candidates = [infos[name] for name in names]
        listed = " ".join(sorted(outcome.restricting))
        diagnosis.node_to_status.absent = fwk.unresolvable(
            f"node(s) didn't satisfy plugin(s) [{listed}]"
        )
    try:
        feasible = find_nodes_that_pass_filters(search, attempt, diagnosis, candidates)
    except _FilterFailed as failed:
        _advance(search, failed.feasible, diagnosis)
        raise StatusError(failed.status) from failed
    _advance(search, len(feasible), diagnosis)
    return Found(feasible, diagnosis, hint)


def _advance(search: Search, feasible: int, diagnosis: Diagnosis) -> None:
    processed = feasible + len(diagnosis.node_to_status)
    search.next_start_node_index = (search.next_start_node_index + processed) % len(search.snapshot)


class _FilterFailed(Exception):
    def __init__(self, status: Status, feasible: int) -> None:
        super().__init__()
        self.status = status
        self.feasible = feasible


def evaluate_nominated_node(
    snapshot: Snapshot,
    framework: Framework,
    state: CycleState,
    attempt: Attempt,
    name: str,
    diagnosis: Diagnosis,
) -> NodeInfo | None:
    """The node when the pod fits it; a failure is recorded, an error only ends the try."""
    node = snapshot.get(name)
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
    search: Search, attempt: Attempt, diagnosis: Diagnosis, candidates: Sequence[NodeInfo]
) -> Sequence[NodeInfo]:
    """Walk the candidates from the start index until one feasible node too many is met.

    That node is dropped again: neither feasible nor failed. It is what one worker does upstream.
    """
    framework, state, pod = attempt.framework, attempt.state, attempt.pod
    count = len(candidates)
    if count == 0:
        return []
    wanted = search.nodes_to_find(framework, count)
    start = search.next_start_node_index
    if not framework.plugins.filter:
        return [candidates[(start + i) % count] for i in range(wanted)]
    fast = search.fast_path()
    if fast is not None and candidates is search.snapshot.node_info_list:
        quick = fast.find(attempt, diagnosis, start, wanted)
        if quick is not None:
            return quick
    feasible: list[NodeInfo] = []
    statuses = diagnosis.node_to_status
    for i in range(count):
        node = candidates[(start + i) % count]
        status = framework.run_filter_with_nominated_pods(state, pod, node)
        if status is None:
            if len(feasible) == wanted:
                break
            feasible.append(node)
            continue
        if status.code == Code.ERROR:
            raise _FilterFailed(status, len(feasible))
        statuses.set(node.name, status)
        diagnosis.add_plugin_status(status)
    return feasible


def prioritize_nodes(attempt: Attempt, nodes: Sequence[NodeInfo]) -> list[int]:
    """Total score per node. Raises StatusError."""
    framework, state, pod = attempt.framework, attempt.state, attempt.pod
    if not framework.plugins.score:
        return [1] * len(nodes)
    status = framework.run_pre_score(state, pod, nodes)
    if status is not None:
        raise StatusError(status)
    scores = framework.run_score(state, pod, nodes)
    if len(nodes) <= EXPLAINED_NODES:
        attempt.scores = {
            node.name: {each.plugin: each.final[at] * each.weight for each in scores}
            for at, node in enumerate(nodes)
        }
    return total_scores(scores, len(nodes))


def single_node_failure(attempt: Attempt, status: Status) -> Failure:
    """A rejection after the choice (Reserve, Permit, waiting): a FitError about that node."""
    if not status.is_rejected:
        return Failure(Code.ERROR, SchedulingError(status.message))
    diagnosis = Diagnosis(NodeToStatus({attempt.node_name: status}))
    diagnosis.add_plugin_status(status)
    return Failure(status.code, FitError(attempt.pod, 1, diagnosis))
