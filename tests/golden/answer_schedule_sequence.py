"""Pods scheduled one after the other, each assumed where it was placed."""

from __future__ import annotations

from typing import Any

from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.decisions import at_once
from controlplane.scheduler import scheduler as sched
from controlplane.scheduler.cycle import binding
from controlplane.scheduler.cycle.scheduling import schedule
from controlplane.scheduler.state.listers import Listers, MemoryLister
from tests.golden.scheduler_world import config_of
from tests.scheduler.reference.search import SearchByNode, by_node_registry

Json = Any
MS = 1_000_000
START = 1_700_000_000_000 * MS

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def node_tree(template: Json, name: str, zone: str) -> Json:
    """A node of a case: its template with name, hostname and zone."""
    metadata = template.get("metadata", {})
    labels = {**metadata.get("labels", {}), HOSTNAME: name}
    if zone:
        labels[ZONE] = zone
    return {**template, "metadata": {**metadata, "name": name, "labels": labels}}


def pod_tree(template: Json, name: str, node: str = "") -> Json:
    """A pod of a case: its template with identity and scheduler."""
    metadata = {**template.get("metadata", {}), "name": name, "namespace": "default", "uid": name}
    spec = {**template["spec"], "schedulerName": "default-scheduler"}
    if node:
        spec["nodeName"] = node
    return {**template, "metadata": metadata, "spec": spec}


class Sequence:
    """One case."""

    def __init__(self, case: Json, *, fast: bool = True) -> None:
        self.case = case
        namespaces: MemoryLister[Any] = MemoryLister()
        from controlplane.api.core import Namespace

        for tree in case.get("namespaces", ()):
            namespaces.put(Namespace.from_tree(tree))
        self.pods: MemoryLister[Pod] = MemoryLister()
        listers = Listers(pods=self.pods, namespaces=namespaces)
        config = config_of(case)
        registry = None if fast else by_node_registry()
        self.scheduler = sched.Scheduler(listers, config=config, registry=registry)
        if not fast:
            self.scheduler.search = SearchByNode(
                self.scheduler.handle.columns, config.percentage_of_nodes_to_score
            )
        for name, index, zone in case["nodes"]:
            tree = node_tree(case["nodeTemplates"][index], name, zone)
            self.scheduler.cache.add_node(Node.from_tree(tree))
        for name, index, node in case.get("existingPods", ()):
            pod = Pod.from_tree(pod_tree(case["podTemplates"][index], name, node))
            self.pods.put(pod)
            self.scheduler.cache.add_pod(pod)
        self.now = START
        for name, index in case["pods"]:
            pod = Pod.from_tree(pod_tree(case["podTemplates"][index], name))
            self.pods.put(pod)
            at_once(self.scheduler.queue.add(pod, self.now))
            self.now += MS
        self.messages: list[Json] = []
        self.failures: Json = {}
        self.totals: Json = {}
        self.placements: list[Json] = []

    def run(self) -> Json:
        """Schedule everything."""
        while (info := self.scheduler.queue.pop()) is not None:
            attempt = self.scheduler.begin(info, self.now)
            assert not isinstance(attempt, sched.Skipped)
            start = self.scheduler.search.next_start_node_index
            self.scheduler.update_snapshot(attempt)
            attempt.framework.plugins.post_filter = []
            at_once(
                schedule(self.scheduler.search, attempt, keep_totals=bool(self.case.get("totals")))
            )
            self.scheduler.queue.done(info.uid)
            if attempt.failure is not None:
                self._failed(info.pod.name, attempt.failure)
                self.placements.append([info.pod.name, None, start])
                continue
            result = attempt.result
            assert result is not None
            at_once(binding.assume(self.scheduler.cache, self.scheduler.queue, attempt))
            self.placements.append(
                [
                    info.pod.name,
                    result.node_name,
                    start,
                    result.evaluated_nodes,
                    result.feasible_nodes,
                ]
            )
            if attempt.totals is not None and len(attempt.totals) > 1:
                self.totals[info.pod.name] = [list(each) for each in attempt.totals]
        snapshot = self.scheduler.snapshot
        framework = next(iter(self.scheduler.frameworks.values()))
        want: Json = {
            "batchedPods": framework.batch.used,
            "failures": self.failures,
            "messages": self.messages,
            "nextStartNodeIndex": self.scheduler.search.next_start_node_index,
            "nodeOrder": [node.name for node in snapshot.node_info_list],
            "placements": self.placements,
        }
        return want | ({"totals": self.totals} if self.case.get("totals") else {})

    def _failed(self, name: str, failure: Any) -> None:
        fit = failure.fit_error
        if fit is None:
            entry: Json = {"error": failure.message}
        else:
            entry = {"message": failure.message, "numAllNodes": fit.num_all_nodes}
            plugins = sorted(fit.diagnosis.unschedulable_plugins)
            pending = sorted(fit.diagnosis.pending_plugins)
            entry |= {"unschedulablePlugins": plugins} if plugins else {}
            entry |= {"pendingPlugins": pending} if pending else {}
        if entry not in self.messages:
            self.messages.append(entry)
        self.failures[name] = self.messages.index(entry)


def answer(case_in: Json) -> Json:
    """Our value for `want`; both ways of searching must agree."""
    fast = Sequence(case_in).run()
    slow = Sequence(case_in, fast=False).run()
    return fast if fast == slow else {"fast": fast, "slow": slow}
