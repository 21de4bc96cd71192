"""Elastic quotas: what is used, which pods they refuse, and which pods have to go."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.times import parse_time
from controlplane.decisions import at_once
from controlplane.scheduler.community.capacity_scheduling import CapacityScheduling
from controlplane.scheduler.community.objects import Objects
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.runtime import Framework
from controlplane.scheduler.state.pod_info import PodInfo
from tests.golden.answer_preemptiontoleration import framework_of_fit, preempted, refusals
from tests.golden.scheduler_world import World, status_json

Case = dict[str, Any]


def answer(case: Case) -> Case:
    """The answer for one case of `capacity`."""
    world, pod, now = World(case), Pod.from_tree(case["pod"]), parse_time(case["now"])
    world.pods.put(pod)
    world.update_snapshot()
    handle = world.handle
    handle.clock = lambda: now
    pods = {each.key: each for each in map(Pod.from_tree, case.get("pods", ()))}
    handle.nominated_pods = lambda node: [
        PodInfo(each)
        for each in (*pods.values(), pod)
        if each.status.nominated_node_name == node and not each.spec.node_name
    ]
    plugin = CapacityScheduling(None, handle, Objects(case.get("elasticQuotas", ())))
    for tree in case.get("elasticQuotas", ()):
        plugin.quota_added(tree)
    for each in pods.values():
        plugin.pod_added(each)
    made: Case = {}
    if "ops" in case:
        made["steps"] = [_step(plugin, each, pods) for each in case["ops"]]
    made["state"] = _state(plugin)
    _, status = plugin.pre_filter(CycleState(now), pod, ())
    made["preFilter"] = status_json(status)
    return {**made, **_run(world, plugin, pod, now)} if case.get("nodes") else made


def _step(plugin: CapacityScheduling, op: Case, pods: dict[str, Pod]) -> Case:
    name, made = op["op"], {}
    if name.endswith("Quota"):
        change = plugin.quota_changed if name == "updateQuota" else plugin.quota_deleted
        change(op["elasticQuota"])
    elif name == "updatePod":
        new = Pod.from_tree(op["object"])
        plugin.pod_updated(pods[new.key], new)
        pods[new.key] = new
    elif name == "deletePod":
        plugin.pod_deleted(pods[op["pod"]])
    elif name == "reserve":
        made["status"] = status_json(plugin.reserve(CycleState(), pods[op["pod"]], op["node"]))
    else:
        plugin.unreserve(CycleState(), pods[op["pod"]], op["node"])
    return {**made, "state": _state(plugin)}


def _state(plugin: CapacityScheduling) -> Case:
    return {
        namespace: {
            "pods": len(quota.pods),
            "overMin": quota.over_least(),
            "used": {
                "cpu": quota.used.milli_cpu,
                "memory": quota.used.memory,
                "ephemeral-storage": quota.used.ephemeral_storage,
                "pods": quota.used.allowed_pod_number,
                **quota.used.scalars,
            },
        }
        for namespace, quota in plugin.quotas.by_namespace.items()
    }


def _run(world: World, plugin: CapacityScheduling, pod: Pod, now: int) -> Case:
    plugins = framework_of_fit(world).plugins
    plugins.add("preFilter", plugin)
    framework = Framework("default-scheduler", world.handle, plugins)
    state = CycleState(now)
    status = at_once(framework.run_pre_filter(state, pod)).status
    names = [node.name for node in world.snapshot.node_info_list]
    made: Case = {}
    if status is not None:
        refused = dict.fromkeys(names, status)
    else:
        refused = refusals(world, framework, state, pod)
        made["filter"] = {name: status_json(each) for name, each in refused.items()}
        if len(refused) < len(names):
            return {**made, "fits": True}
    return {**made, **preempted(world, plugin, state, pod, refused, framework)}
