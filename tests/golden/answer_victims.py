"""Victims of a pod group that preempts: the group algorithm is the cases' own stand-in (first node with free CPU)."""

from __future__ import annotations

from typing import Any

from controlplane.api.pod import Pod
from controlplane.api.policy import PodDisruptionBudget
from controlplane.api.scheduling import PodGroup
from controlplane.decisions import Steps, at_once
from controlplane.scheduler.framework.interface import Status, unschedulable
from controlplane.scheduler.plugins.group_preemption import GroupPreemptor, select_victims, units
from controlplane.scheduler.plugins.preemption import compile_budgets
from controlplane.scheduler.state.listers import MemoryLister
from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.resources import Resource, pod_requests
from tests.golden.scheduler_world import World, status_json

Json = Any
NOW = 1_800_000_000 * 10**9


class ByName:
    """Pod groups by name alone, as the cases' lister finds them."""

    def __init__(self, groups: list[PodGroup]) -> None:
        self._groups = MemoryLister(groups)

    def get(self, _namespace: str, name: str) -> PodGroup | None:
        return next((each for each in self._groups if each.name == name), None)

    def list(self) -> list[PodGroup]:
        return list(self._groups)


class Placing:
    """The stand-in for the group algorithm, and what it answered."""

    def __init__(self, nodes: list[NodeInfo], pods: tuple[Pod, ...], wanted: int) -> None:
        self.nodes = nodes
        self.pods = pods
        self.wanted = wanted
        self.calls: list[Json] = []

    def __call__(self) -> Steps[Status | None]:
        free = {
            node.name: node.allocatable.milli_cpu - node.requested.milli_cpu for node in self.nodes
        }
        placed = 0
        for pod in self.pods:
            asked = Resource.from_requests(pod_requests(pod)).milli_cpu
            for node in self.nodes:
                assert node.node is not None
                labels = node.node.labels
                selects = all(labels.get(k) == v for k, v in pod.spec.node_selector.items())
                if selects and free[node.name] >= asked:
                    free[node.name] -= asked
                    placed += 1
                    break
        present = sum(len(node.pods) for node in self.nodes)
        self.calls.append([present, placed >= self.wanted])
        return None if placed >= self.wanted else unschedulable(f"only {placed} pods fit")
        yield


def answer(case_in: Json) -> Json:
    """Our value for `want`."""
    world = World({"nodes": case_in["nodes"], "pods": case_in.get("pods", ())})
    world.update_snapshot()
    nodes = [world.snapshot.node_info_map[tree["metadata"]["name"]] for tree in case_in["nodes"]]
    groups = ByName([PodGroup.from_tree(tree) for tree in case_in.get("podGroups", ())])
    budgets = [PodDisruptionBudget.from_tree(t) for t in case_in.get("podDisruptionBudgets", ())]
    given = case_in["preemptor"]
    pods = tuple(Pod.from_tree(tree) for tree in given["pods"])
    preemptor = GroupPreemptor(PodGroup.from_tree(given["podGroup"]), pods)
    placing = Placing(nodes, pods, given["minCount"])
    victims, status = at_once(
        select_victims(
            preemptor,
            {node.name: node for node in nodes},
            units(nodes, groups, NOW),
            compile_budgets(budgets),
            placing,
        )
    )
    out: Json = {
        "calls": placing.calls,
        "priority": preemptor.priority,
        "preemptionPolicy": preemptor.preemption_policy,
    }
    if status is not None:
        return out | {"status": status_json(status)}
    return out | {"victims": [pod.name for pod in victims]}
