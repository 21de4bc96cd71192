"""Which pods tolerate a preemption, and which victims are chosen among the others."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.times import parse_time
from controlplane.decisions import at_once
from controlplane.scheduler.community.preemption_toleration import PreemptionToleration, exempted
from controlplane.scheduler.config.model import ProfileConfig
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import Code, NodeToStatus, Status, StatusError
from controlplane.scheduler.plugins.registry import build_framework
from tests.golden.scheduler_world import World, status_json

Case = dict[str, Any]


def answer(case: Case) -> Case:
    """The answer for one case of `toleration`."""
    world, pod, now = World(case), Pod.from_tree(case["pod"]), parse_time(case["now"])
    world.pods.put(pod)
    world.update_snapshot()
    world.handle.clock = lambda: now
    made: Case = {"exempted": _exempted(world, case, pod, now)}
    framework = framework_of_fit(world)
    state = CycleState(now)
    outcome = at_once(framework.run_pre_filter(state, pod))
    made["preFilter"] = status_json(outcome.status)
    refused = refusals(world, framework, state, pod)
    made["filter"] = {name: status_json(status) for name, status in refused.items()}
    if len(refused) < len(case["nodes"]):
        return {**made, "fits": True}
    plugin = PreemptionToleration(case.get("args"), world.handle)
    return {**made, **preempted(world, plugin, state, pod, refused, framework)}


def framework_of_fit(world: World, more: tuple[Any, ...] = ()) -> Any:
    """The filters of a case."""
    plugins = {
        "queueSort": (("PrioritySort", 1),),
        "preFilter": (("NodeResourcesFit", 1),),
        "filter": (("NodeResourcesFit", 1), ("NodeUnschedulable", 1)),
        "bind": (("DefaultBinder", 1),),
    }
    framework = build_framework(ProfileConfig(plugins=plugins), world.handle, None)
    for each in more:
        for point in ("preFilter", "filter"):
            framework.add(point, each)
    return framework


def refusals(world: World, framework: Any, state: CycleState, pod: Pod) -> dict[str, Status]:
    """The statuses of the nodes that the filters refuse."""
    found = {}
    for node in world.snapshot.node_info_list:
        status = framework.run_filter_with_nominated_pods(state, pod, node)
        if status is not None:
            found[node.name] = status
    return found


def preempted(
    world: World,
    plugin: Any,
    state: CycleState,
    pod: Pod,
    refused: dict[str, Status],
    framework: Any,
) -> Case:
    """The result of the plugin's PostFilter."""
    statuses = NodeToStatus(refused, Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE))
    result, status = plugin.post_filter(state, pod, statuses, framework)
    made: Case = {"postFilter": status_json(status)}
    if result is not None and result.nominating is not None:
        made["nominatedNode"] = result.nominating.nominated_node_name
    tasks = world.handle.preemptions
    if tasks:
        made["victims"] = sorted(victim.key for victim in tasks[0].victims)
    return made


def _exempted(world: World, case: Case, pod: Pod, now: int) -> Case:
    found: Case = {}
    for victim in map(Pod.from_tree, case["pods"]):
        try:
            found[victim.key] = exempted(victim, pod, world.listers.priority_classes, now)
        except StatusError as missing:
            found[victim.key] = str(missing)
    return found
