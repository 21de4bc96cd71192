"""Answers of each plugin about a pod: for the log, and as the annotations of kube-scheduler-simulator.

The plugins are asked once more, all of them about every node, on the snapshot the attempt used and
with a state of their own, so explaining changes no decision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from controlplane.scheduler.columns.rows import Rows
from controlplane.scheduler.cycle.explanation import (
    HISTORY,
    PASSED,
    SELECTED,
    SUCCESS,
    Explanation,
    as_text,
)
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import Code, StatusError
from controlplane.scheduler.framework.waiting import format_duration
from controlplane.scheduler.plugins.unmet_claims import kept_by_rules, unmet_claims

if TYPE_CHECKING:
    from controlplane.scheduler.cycle.attempt import Attempt
    from controlplane.scheduler.cycle.evaluation import Evaluation
    from controlplane.scheduler.cycle.scheduling import Search
    from controlplane.scheduler.framework.fit_error import FitError
    from controlplane.scheduler.framework.runtime import Framework
    from controlplane.scheduler.state.node_info import NodeInfo

WAIT = "wait"
VICTIM = "preemption victim"
ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes that all annotations of an object may have together."""

NAMED_NODES = 16
"""The number of nodes refused for one reason that the log names; the flag that explains names all."""


def refusals(unfit: FitError) -> list[dict[str, Any]]:
    """For the log: which plugin refused which nodes with which words, of many nodes only the first by name."""
    diagnosis = unfit.diagnosis
    found = [
        {
            "plugin": refusal.status.plugin,
            "message": refusal.status.message,
            "count": refusal.total,
            "nodes": refusal.nodes,
        }
        for refusal in diagnosis.node_to_status.refusals(NAMED_NODES)
    ]
    if not found and diagnosis.pre_filter_msg:
        plugins = ", ".join(diagnosis.unschedulable_plugins)
        said = {"plugin": plugins, "message": diagnosis.pre_filter_msg}
        return [{**said, "count": unfit.num_all_nodes, "nodes": []}]
    return found


def claims(attempt: Attempt) -> list[dict[str, Any]]:
    """For the log: what the pod's claims ask for that were not allocated; nothing for pods without claims."""
    if not attempt.pod.spec.resource_claims:
        return []
    return unmet_claims(attempt.state, attempt.framework.handle.dra)


def rules_met(attempt: Attempt) -> list[str]:
    """For the log: which DeviceTaintRules kept devices from the pod's claims that found others."""
    if not attempt.pod.spec.resource_claims:
        return []
    return kept_by_rules(attempt.state, attempt.framework.handle.dra)


def explain(search: Search, attempt: Attempt, start: int) -> Explanation:
    """Ask the plugins again about an attempt that has just looked for a node.

    `start` is where the search began (`search.next_start_node_index` before it).
    """
    framework, snapshot = attempt.framework, search.snapshot
    found = Explanation()
    state = CycleState(attempt.started)
    nodes: Sequence[NodeInfo] = snapshot.node_info_list
    allowed = _pre_filter(framework, state, attempt, nodes, found)
    if allowed is not None:
        feasible = _filter(search, state, attempt, allowed, start, found)
        if len(feasible) > 1:
            rows = Rows.of(search.columns, feasible)
            _score(search.evaluation, attrs.evolve(attempt, state=state), rows, found)
    if attempt.result is not None:
        found.selected = attempt.node_name
    elif attempt.failure is not None and attempt.failure.nominating is not None:
        node = attempt.failure.nominating.nominated_node_name
        for plugin in framework.plugins.post_filter if node else ():
            results = found.results["postfilter-result"]
            for name in found.results["filter-result"]:
                results[name] = {plugin.name: VICTIM} if name == node else {}
            break
    return found


def _pre_filter(
    framework: Framework,
    state: CycleState,
    attempt: Attempt,
    nodes: Sequence[NodeInfo],
    found: Explanation,
) -> Sequence[NodeInfo] | None:
    """The nodes the PreFilters leave; None when one refused the pod."""
    names: Mapping[str, None] | None = None
    refused = False
    for plugin in framework.plugins.pre_filter:
        result, status = plugin.pre_filter(state, attempt.pod, nodes)
        if status is not None and status.code == Code.SKIP:
            state.skip_filter.add(plugin.name)
            found.results["prefilter-result-status"][plugin.name] = ""
            continue
        said = SUCCESS if status is None else status.message
        found.results["prefilter-result-status"][plugin.name] = said
        if result is not None and result.node_names is not None:
            mine = result.node_names
            found.results["prefilter-result"][plugin.name] = list(mine)
            names = mine if names is None else {name: None for name in names if name in mine}
        if status is not None:
            refused = True
            if status.code != Code.UNSCHEDULABLE:
                break
    if refused:
        return None
    return nodes if names is None else [node for node in nodes if node.name in names]


def _filter(
    search: Search,
    state: CycleState,
    attempt: Attempt,
    nodes: Sequence[NodeInfo],
    start: int,
    found: Explanation,
) -> list[NodeInfo]:
    """Return the answers of the Filters about the nodes that the search evaluated; the feasible ones."""
    framework, pod = attempt.framework, attempt.pod
    results = found.results["filter-result"]
    feasible: list[NodeInfo] = []
    wanted = search.nodes_to_find(framework, len(nodes))
    if attempt.result is not None and attempt.result.feasible_nodes == 1 and len(nodes) > 1:
        # A nominated or hinted node is tried alone: it comes first.
        chosen = [node for node in nodes if node.name == attempt.node_name]
        if attempt.result.evaluated_nodes == 1:
            nodes = chosen
    count = len(nodes)
    for number in range(count):
        node = nodes[(start + number) % count]
        said: dict[str, str] = {}
        fits = True
        for plugin in framework.plugins.filter:
            if plugin.name in state.skip_filter:
                continue
            status = plugin.filter(state, pod, node)
            said[plugin.name] = PASSED if status is None else status.message
            if status is not None:
                fits = False
                break
        if fits and len(feasible) == wanted:
            break
        results[node.name] = said
        if fits:
            feasible.append(node)
    return feasible


def _score(evaluation: Evaluation, attempt: Attempt, nodes: Rows, found: Explanation) -> None:
    framework, state, pod = attempt.framework, attempt.state, attempt.pod
    for plugin in framework.plugins.pre_score:
        status = plugin.pre_score(state, pod, nodes)
        if status is not None and status.code == Code.SKIP:
            state.skip_score.add(plugin.name)
        said = SUCCESS if status is None else status.message
        found.results["prescore-result"][plugin.name] = said
    try:
        scores = evaluation.scores(attempt, nodes)
    except StatusError:
        return
    raw, final = found.results["score-result"], found.results["finalscore-result"]
    for at, node in enumerate(nodes):
        raw[node.name] = {each.plugin: str(each.raw[at]) for each in scores}
        final[node.name] = {each.plugin: str(each.weighted[at]) for each in scores}


def reserved(found: Explanation, attempt: Attempt) -> None:
    """Add what Reserve and Permit said (a refusal stands in the attempt's failure)."""
    plugins = attempt.framework.plugins
    refused: dict[str, None] = {}
    message = ""
    fit = None if attempt.failure is None else attempt.failure.fit_error
    if fit is not None:
        refused = fit.diagnosis.unschedulable_plugins
        message = ", ".join(fit.diagnosis.node_to_status.reason_counts())
    for point, wanted in (("reserve-result", plugins.reserve), ("permit-result", plugins.permit)):
        for plugin in wanted:
            if plugin.name in refused:
                found.results[point][plugin.name] = message
                return
            waits = point == "permit-result" and plugin.name in attempt.waits
            found.results[point][plugin.name] = WAIT if waits else SUCCESS
    for name, timeout in attempt.waits.items():
        found.results["permit-result-timeout"][name] = format_duration(timeout)


def bound(found: Explanation, attempt: Attempt) -> None:
    """Add what PreBind and Bind did for a pod that was bound."""
    plugins = attempt.framework.plugins
    for plugin in plugins.pre_bind:
        if plugin.name not in attempt.state.skip_pre_bind:
            found.results["prebind-result"][plugin.name] = SUCCESS
    if plugins.bind:
        found.results["bind-result"][plugins.bind[0].name] = SUCCESS


def with_history(found: Explanation, existing: Mapping[str, str]) -> dict[str, str]:
    """All annotations to write, given those the pod has: the history grows by this attempt.

    The oldest results are dropped when all annotations would exceed the limit.
    """
    now = found.annotations()
    try:
        history = json.loads(existing.get(HISTORY) or "[]")
    except ValueError:
        history = []
    history = [*(history if isinstance(history, list) else []), now]
    kept = {key: value for key, value in existing.items() if key != HISTORY and key not in now}
    size = sum(len(key.encode()) + len(value.encode()) for key, value in {**kept, **now}.items())
    while history:
        text = as_text(history)
        if size + len(HISTORY) + len(text.encode()) <= ANNOTATIONS_LIMIT:
            return {**now, HISTORY: text}
        history.pop(0)
    return now if size <= ANNOTATIONS_LIMIT else {SELECTED: found.selected}
