"""Answers of community plugins, by our code."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.times import parse_time
from controlplane.scheduler.columns.rows import Rows
from controlplane.scheduler.community import PLUGINS, args
from controlplane.scheduler.community.load import Metric
from controlplane.scheduler.community.network_aware import NetworkOverhead, TopologicalSort
from controlplane.scheduler.community.node_resource_topology import NodeResourceTopologyMatch
from controlplane.scheduler.community.objects import Objects
from controlplane.scheduler.community.sysched import SySched
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import (
    FilterPlugin,
    NormalizeScorePlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ScorePlugin,
)
from controlplane.scheduler.framework.panic import PanicError
from tests.golden.runner import UNANSWERED
from tests.golden.scheduler_world import World, status_json

Case = dict[str, Any]
READERS = (SySched, NetworkOverhead, TopologicalSort, NodeResourceTopologyMatch)
"""Plugins that read custom resources."""
BY_NAME: dict[str, Any] = {cls.name: cls for cls in (*PLUGINS, *READERS)}
_CUSTOM = ("seccompProfiles", "appGroups", "networkTopologies", "nodeResourceTopologies")


def answer(case: Case) -> Any:
    """The answer for one case of `args`, `score` or `less`."""
    if case["kind"] == "args":
        return _args(case)
    cls = BY_NAME.get(case.get("plugin", ""))
    if cls is None or case["kind"] not in ("score", "less"):
        return UNANSWERED
    return _less(case, cls) if case["kind"] == "less" else _score(case, cls)


def _args(case: Case) -> Case:
    try:
        made = args.defaulted(case["plugin"], case.get("args"))
    except args.ArgsError as error:
        return {"error": str(error)}
    told = args.problem(case["plugin"], made)
    return {"args": made, **({"newError": told} if told else {})}


class _Load:
    """The figures of a case."""

    def __init__(self, case: Case) -> None:
        told = case.get("metrics") or {}
        self._nodes = (told.get("data") or {}).get("NodeMetricsMap") or {}
        self._end = (told.get("window") or {}).get("end", 0)
        self._recent = case.get("recentlyAssigned") or []

    def metrics(self, node: Any) -> Any:
        found = self._nodes.get(node.node.name)
        if found is None:
            return None
        return [
            Metric(each.get("type", ""), each.get("operator", ""), each.get("value", 0))
            for each in found.get("metrics") or ()
        ]

    def unmeasured(self, node: Any) -> Any:
        return [
            each["pod"]
            for each in self._recent
            if each.get("node") == node.node.name and self._end - each["unix"] < 60
        ]


def _made(case: Case, cls: Any, handle: Any) -> Any:
    if cls not in READERS:
        return cls(case.get("args"), handle)
    objects = Objects(tree for field in _CUSTOM for tree in case.get(field, ()))
    return cls(case.get("args"), handle, objects)


def _notify(plugin: SySched, case: Case) -> None:
    for tree in case.get("pods", ()):
        plugin.pod_added(Pod.from_tree(tree))
    for each in case.get("ops", ()):
        pod = Pod.from_tree(each["object"])
        if each["op"] == "podUpdated":
            plugin.pod_updated(pod, pod)
        elif each["op"] == "podAdded":
            plugin.pod_added(pod)
        else:
            plugin.pod_deleted(pod)


def _score(case: Case, cls: Any) -> Case:
    try:
        return _scores(case, cls)
    except PanicError as panic:
        return {"panic": str(panic)}


def _filtered(plugin: Any, state: CycleState, pod: Pod, nodes: Any) -> Case:
    _, status = plugin.pre_filter(state, pod, nodes)
    shown = status_json(status)
    if isinstance(plugin, NetworkOverhead) and isinstance(told := plugin.prepare(pod)[1], str):
        shown["reasons"] = [told]
    refused = {node.name: plugin.filter(state, pod, node) for node in nodes}
    return {
        "preFilter": shown,
        "filter": {name: status_json(status) for name, status in refused.items() if status},
    }


def _scores(case: Case, cls: Any) -> Case:
    world = World(case)
    if cls in READERS:
        world.pods.put(Pod.from_tree(case["pod"]))
    world.update_snapshot()
    handle = world.handle
    handle.clock = lambda: parse_time(case["now"]) if "now" in case else 0
    handle.nominated_pods = lambda node: [
        each
        for each in case.get("pods", ())
        if (each.get("status") or {}).get("nominatedNodeName") == node
        and not each["spec"].get("nodeName")
    ]
    try:
        plugin = _made(case, cls, handle)
    except args.ArgsError as error:
        return {"error": str(error)}
    if hasattr(plugin, "load"):
        plugin.load = _Load(case)
    if isinstance(plugin, SySched):
        _notify(plugin, case)
    pod, state = Pod.from_tree(case["pod"]), CycleState()
    nodes = [handle.snapshot.get(each["metadata"]["name"]) for each in case["nodes"]]
    made: Case = {}
    if isinstance(plugin, FilterPlugin):
        made.update(_filtered(plugin, state, pod, nodes))
    if isinstance(plugin, PreScorePlugin):
        assert plugin.pre_score(state, pod, Rows.of(handle.columns, nodes)) is None
        made["preScore"] = {"code": "Success"}
    assert isinstance(plugin, ScorePlugin)
    scores = [plugin.score(state, pod, node) for node in nodes]
    made["raw"] = list(scores)
    if isinstance(plugin, NormalizeScorePlugin):
        plugin.normalize(state, pod, nodes, scores)
    if not isinstance(plugin, NodeResourceTopologyMatch):
        made["normalized"] = scores
    return made


def _less(case: Case, cls: Any) -> Case:
    from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
    from controlplane.scheduler.state.pod_info import PodInfo

    plugin = _made(case, cls, None)
    assert isinstance(plugin, QueueSortPlugin)
    infos = []
    for tree, at in zip(case["pods"], case["initialAttempt"], strict=True):
        infos.append(QueuedPodInfo(PodInfo(Pod.from_tree(tree)), parse_time(at)))

    def shown(a: Any, b: Any) -> str:
        try:
            return "1" if plugin.less(a, b) else "0"
        except PanicError:
            return "!"

    return {"less": ["".join(shown(a, b) for b in infos) for a in infos]}
