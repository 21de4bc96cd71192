"""Every default plugin, one by one, on one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.scheduler.columns.rows import Rows
from controlplane.scheduler.framework.column_forms import ClusterScore, NodeLocalScore, StatusTable
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import (
    Code,
    NormalizeScorePlugin,
    PreScorePlugin,
    Status,
    StatusError,
)
from controlplane.scheduler.framework.runtime import Framework
from controlplane.scheduler.state.node_info import NodeInfo
from tests.golden.scheduler_world import World, framework_of, status_json

Json = Any


def _pre_filter(framework: Framework, state: CycleState, pod: Pod, nodes: Any) -> Json:
    ran: list[str] = []
    said: Json = {}
    rejected: set[str] = set()
    skipped: set[str] = set()
    for plugin in framework.plugins.pre_filter:
        result, status = plugin.pre_filter(state, pod, nodes)
        if status is not None and status.code == Code.SKIP:
            skipped.add(plugin.name)
            continue
        ran.append(plugin.name)
        entry = status_json(status)
        if result is not None and result.node_names is not None:
            entry["nodeNames"] = sorted(result.node_names)
        if status is not None or "nodeNames" in entry:
            said[plugin.name] = entry
        if status is not None:
            rejected.add(plugin.name)
    return ran, said, rejected, skipped


def _all(framework: Framework, pod: Pod) -> Json:
    outcome = at_once(framework.run_pre_filter(CycleState(), pod))
    if outcome.status is None and outcome.node_names is None:
        return None, outcome
    entry = status_json(outcome.status)
    if outcome.status is not None and outcome.status.plugin:
        entry["plugin"] = outcome.status.plugin
    if outcome.node_names is not None:
        entry["nodeNames"] = sorted(outcome.node_names)
    if outcome.restricting:
        entry["nodePlugins"] = sorted(outcome.restricting)
    return entry, outcome


def _scores(
    framework: Framework,
    state: CycleState,
    pod: Pod,
    nodes: Sequence[NodeInfo],
    want: Json,
    *,
    by_node: bool,
) -> None:
    columns = framework.handle.columns
    rows = Rows.of(columns, nodes)
    ran: list[str] = []
    scores: Json = {}
    left_out: set[str] = set()
    for plugin in framework.plugins.pre_score:
        assert isinstance(plugin, PreScorePlugin)
        status = plugin.pre_score(state, pod, nodes if by_node else rows)
        if status is not None and status.code == Code.SKIP:
            left_out.add(plugin.name)
            continue
        ran.append(plugin.name)
        if status is not None:
            left_out.add(plugin.name)
            scores[plugin.name] = {"preScore": status_json(status)}
    totals = [0] * len(nodes)
    for plugin in framework.plugins.score:
        if plugin.name in left_out:
            continue
        try:
            raw = [plugin.score(state, pod, node) for node in nodes]
            if not by_node and isinstance(plugin, ClusterScore):
                assert raw == plugin.score_rows(state, pod, columns, rows.rows).tolist()
            if not by_node and isinstance(plugin, NodeLocalScore):
                assert raw == plugin.score_all(state, pod, columns)[rows.rows].tolist()
        except StatusError as failed:
            scores[plugin.name] = {"error": status_json(failed.status)}
            continue
        entry: Json = {"raw": raw}
        final = raw
        if isinstance(plugin, NormalizeScorePlugin):
            final = list(raw)
            plugin.normalize(state, pod, nodes, final)
            entry["normalized"] = final
        if any(raw) or any(final):
            scores[plugin.name] = entry
        weight = framework.weights[plugin.name]
        totals = [total + score * weight for total, score in zip(totals, final)]
    want |= {"preScoreRan": ran, "score": scores, "total": totals}


def _column_statuses(
    framework: Framework, state: CycleState, pod: Pod, left_out: set[str]
) -> dict[str, Any]:
    """Per plugin with a column form, a status (or None) for every row."""
    columns, table = framework.handle.columns, StatusTable()
    out: dict[str, Any] = {}
    for form in framework.filter_forms:
        name = form.plugin.name
        if name in left_out or (form.local is None and form.cluster is None):
            continue
        if form.local is not None:
            ids = form.local.filter_all(state, pod, columns, table)
        else:
            assert form.cluster is not None
            ids = form.cluster.filter_cluster(state, pod, columns, table)
        numbers = [0] * columns.size if ids is None else ids.tolist()
        out[name] = [table.statuses[number] for number in numbers]
    return out


def answer(case_in: Json) -> Json:
    """Our value for `want`; columns and the reference that asks node by node must agree."""
    columns, by_node = _answer(case_in, by_node=False), _answer(case_in, by_node=True)
    return columns if columns == by_node else {"columns": columns, "by node": by_node}


def _answer(case_in: Json, *, by_node: bool) -> Json:
    world = World(case_in["cluster"])
    pod = Pod.from_tree(case_in["pod"])
    world.pods.put(pod)
    framework = framework_of(case_in, world.handle, by_node=by_node)
    world.update_snapshot()
    nodes = world.snapshot.node_info_list
    order = [node.name for node in nodes]
    want: Json = {}
    if order != [tree["metadata"]["name"] for tree in case_in["cluster"]["nodes"]]:
        want["nodeOrder"] = order
    combined, outcome = _all(framework, pod)
    if combined is not None:
        want["preFilterAll"] = combined
    state = CycleState()
    ran, said, rejected, skipped = _pre_filter(framework, state, pod, nodes)
    want["preFilterRan"] = ran
    if said:
        want["preFilter"] = said
    filters: Json = {}
    feasible: list[NodeInfo] = []
    left_out = skipped | rejected
    by_columns = {} if by_node else _column_statuses(framework, state, pod, left_out)
    for row, node in enumerate(nodes):
        refused: Json = {}
        for plugin in framework.plugins.filter:
            if plugin.name in left_out:
                continue
            status: Status | None = plugin.filter(state, pod, node)
            if plugin.name in by_columns:
                wanted = by_columns[plugin.name][row]
                assert (None if status is None else status.by(plugin.name)) == wanted
            if status is not None:
                refused[plugin.name] = status_json(status)
        if refused:
            filters[node.name] = refused
        elif outcome.node_names is None or node.name in outcome.node_names:
            feasible.append(node)
    want["filter"] = filters
    if rejected:
        feasible = []
    want["feasible"] = [node.name for node in feasible]
    if rejected:
        return want
    scored = feasible
    if case_in["scoreNodes"] == "all":
        scored = nodes
        want["scored"] = order
    if scored:
        _scores(framework, state, pod, scored, want, by_node=by_node)
    return want
