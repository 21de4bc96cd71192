"""Filters and scores of NodeResourceTopologyMatch while its cache is notified of pods and of reports of nodes."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.scheduler.community.node_resource_topology import NodeResourceTopologyMatch
from controlplane.scheduler.community.numa_cache import OverReserve
from controlplane.scheduler.community.objects import Objects
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.panic import PanicError
from tests.golden.scheduler_world import World, status_json

Case = dict[str, Any]


def answer(case: Case) -> Case:
    """The answer for one case of `nrtcache`."""
    try:
        machine = _Machine(case)
        return {"steps": [machine.step(each) for each in case["ops"]]}
    except PanicError as panic:
        return {"panic": str(panic)}


class _Machine:
    """The plugin of a case and what it reads."""

    def __init__(self, case: Case) -> None:
        self.world = World(case)
        self.world.update_snapshot()
        self.objects = Objects(case.get("nodeResourceTopologies", ()))
        handle = self.world.handle
        self.plugin = NodeResourceTopologyMatch(case.get("args"), handle, self.objects)
        self.nodes = [handle.snapshot.get(each["metadata"]["name"]) for each in case["nodes"]]
        self.pods = {pod.key: pod for pod in map(Pod.from_tree, case["pods"])}

    def step(self, op: Case) -> Case:
        """Run one operation; what it shows."""
        name, cache = op["op"], self.plugin.cache
        if name in ("filter", "score"):
            return {name: self._ask(name, self.pods[op["pod"]])}
        if name == "updateNRT":
            tree = op["nodeResourceTopology"]
            self.objects.put(tree)
            if isinstance(cache, OverReserve):
                cache.object_changed(tree)
        elif name == "bound":
            self.world.pods.put(Pod.from_tree(op["object"]))
        elif name in ("foreign", "resync"):
            return self._cache(cache, name, op)
        else:
            return self._decided(name, op)
        return {}

    def _ask(self, name: str, pod: Pod) -> Case:
        if name == "score":
            return {node.name: self.plugin.score(CycleState(), pod, node) for node in self.nodes}
        state = CycleState()
        self.plugin.pre_filter(state, pod, self.nodes)
        told = {node.name: self.plugin.filter(state, pod, node) for node in self.nodes}
        return {node: status_json(status) for node, status in told.items() if status is not None}

    def _cache(self, cache: Any, name: str, op: Case) -> Case:
        if not isinstance(cache, OverReserve):
            return {}
        if name == "foreign":
            cache.has_foreign(op["node"])
            return {}
        cache.resync()
        dirty, changed = cache.dirty()
        return {"dirty": dirty, "configChanged": changed, "generation": cache.generation}

    def _decided(self, name: str, op: Case) -> Case:
        state, pod, node = CycleState(), self.pods[op["pod"]], op["node"]
        if name == "reserve":
            return {"status": status_json(self.plugin.reserve(state, pod, node))}
        if name == "unreserve":
            self.plugin.unreserve(state, pod, node)
        else:
            self.plugin.post_bind(state, pod, node)
        return {}
