"""Which victims, on which node, for a pod that fits nowhere."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.scheduler.cycle.attempt import Attempt
from controlplane.scheduler.cycle.scheduling import Search, schedule_pod
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.fit_error import FitError
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo, pod_key
from controlplane.scheduler.plugins.default_preemption import preemption_plugin
from controlplane.scheduler.plugins.preemption import best_candidates
from controlplane.scheduler.queue.nominator import Nominator
from controlplane.scheduler.state.pod_info import PodInfo
from tests.golden.scheduler_world import World, framework_of, status_json
from tests.scheduler.reference.search import SearchByNode

Json = Any
NOW = 1_800_000_000_000_000_000


def answer(case_in: Json) -> Json:
    """Our value for `want`; both ways of searching must agree."""
    fast, slow = _answer(case_in, fast=True), _answer(case_in, fast=False)
    return fast if fast == slow else {"fast": fast, "slow": slow}


def _answer(case_in: Json, *, fast: bool) -> Json:
    world = World(case_in["cluster"])
    pod = Pod.from_tree(case_in["pod"])
    world.pods.put(pod)
    waiting: dict[str, PodInfo] = {}
    nominator = Nominator(world.pods, waiting.get)
    for tree in case_in.get("nominatedPods", ()):
        nominated = Pod.from_tree(tree)
        world.pods.put(nominated)
        waiting[pod_key(nominated)] = PodInfo(nominated)
        nominator.add(nominated, None)
    world.handle.nominated_pods = nominator.pods_for_node
    world.handle.nominated_nodes = lambda: list(nominator.by_node)
    framework = framework_of(case_in, world.handle, by_node=not fast)
    plugin = preemption_plugin(framework.all_plugins)
    assert plugin is not None
    world.update_snapshot()
    state = CycleState(NOW)
    attempt = Attempt(QueuedPodInfo.for_pod(pod, NOW), framework, state, NOW, pod.uid)
    search = (Search if fast else SearchByNode)(world.handle.columns)
    try:
        at_once(schedule_pod(search, attempt))
    except FitError as unfit:
        fit = unfit
    statuses = fit.diagnosis.node_to_status
    want: Json = {"fitError": str(fit)}
    order = [node.name for node in world.snapshot.node_info_list]
    want["nodeStatus"] = {
        name: [status.code_name] + ([status.plugin] if status.plugin else [])
        for name in order
        for status in [statuses.get(name)]
    }
    eligible, why = plugin.is_eligible(pod, statuses)
    want["eligible"] = eligible
    if why:
        want["eligibleMessage"] = why
    nodes = plugin.potential_nodes(statuses)
    offset = case_in.get("offset")
    if eligible and offset is not None:
        want["potentialNodes"] = [node.name for node in nodes]
    if eligible and nodes:
        wanted = len(nodes) if offset is None else plugin.candidates_wanted(len(nodes))
        found = plugin.dry_run(state, pod, nodes, (offset or 0) % len(nodes), wanted, framework)
        candidates = found.candidates
        if offset is None:
            candidates = sorted(candidates, key=lambda c: c.node_name)
        else:
            want["candidatesNumber"] = wanted
        want["candidates"] = [
            {
                "node": c.node_name,
                "pdbViolations": c.pdb_violations,
                "victims": [victim.key for victim in c.victims],
            }
            for c in candidates
        ]
        want["rejected"] = {name: status_json(s) for name, s in found.statuses.items()}
        if candidates:
            want["selected"] = [c.node_name for c in best_candidates(candidates, NOW)]
    if offset is None:
        want["postFilter"] = _post_filter(plugin, state, pod, statuses, framework)
    return want


def _post_filter(plugin: Any, state: CycleState, pod: Pod, statuses: Any, framework: Any) -> Json:
    result, status = plugin.post_filter(state, pod, statuses, framework)
    out = status_json(status)
    nominating = None if result is None else result.nominating
    if nominating is not None:
        out["nominatingMode"] = "Override" if nominating.override else "Noop"
    if status is not None and nominating is not None:
        out["nominatedNodeName"] = nominating.nominated_node_name
    return out
