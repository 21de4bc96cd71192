"""Kueue's queue manager, driven operation by operation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controlplane.kueue.gates import Gates
from controlplane.kueue.queues.manager import Head
from controlplane.kueue.queues.reasons import Requeue
from controlplane.kueue.workload.info import Info, LastAssignment
from tests.golden.kueue_queues import SECOND, Queues, key


class Trace:
    """The manager and the workloads that the scheduler holds."""

    def __init__(self, case: Any) -> None:
        gates = Gates(case["world"].get("gates"))
        by_eviction = case["requeuingTimestamp"] == "Eviction"
        self.queues = Queues(case["world"], gates, by_eviction=by_eviction)
        self.held: dict[str, Info] = {}

    def step(self, step: Any) -> Any:
        found = getattr(self, step["op"])(step)
        return {**(found or {}), **self.queues.state()}

    def put(self, step: Any) -> Any:
        self.putClientOnly(step)
        error = self.queues.manager.add_or_update(as_recorded(step["workload"]))
        return {"error": error} if error else None

    def putClientOnly(self, step: Any) -> None:
        self.queues.objects.stored["Workload"][key(step["workload"])] = step["workload"]

    def pop(self, step: Any) -> Any:
        heads = self.queues.manager.heads()
        for head in heads:
            self.held[head.info.key] = head.info
        return (
            {"popped": {each.info.cluster_queue: shown(each) for each in heads}} if heads else None
        )

    def requeue(self, step: Any) -> Any:
        info = self.held[step["name"]]
        if step.get("pendingFlavors"):
            info = replace(info, last_assignment=LastAssignment(({"cpu": 0},), hash=""))
        reason = Requeue(step.get("reason", ""))
        return {"added": self.queues.manager.requeue(info, reason, "WaitingForQuota")}

    def admit(self, step: Any) -> None:
        self.queues.manager.delete(step["name"])

    def delete(self, step: Any) -> None:
        self.queues.objects.stored["Workload"].pop(step["name"], None)
        self.queues.manager.forget(step["name"])

    def flush(self, step: Any) -> Any:
        self.queues.manager.notify(step["names"])
        return {"moved": self.queues.flush()}

    def advance(self, step: Any) -> None:
        self.queues.now += step["seconds"] * SECOND


def as_recorded(workload: Any) -> Any:
    """The object that was handed over: its empty requests, which count in the hash, are not printed."""
    pod_sets = []
    for each in workload["spec"]["podSets"]:
        template = each["template"]
        containers = [
            {**one, "resources": {"requests": {}, **(one.get("resources") or {})}}
            for one in template["spec"]["containers"]
        ]
        spec = {**template["spec"], "containers": containers}
        pod_sets.append({**each, "template": {**template, "spec": spec}})
    return {**workload, "spec": {**workload["spec"], "podSets": pod_sets}}


def shown(head: Head) -> Any:
    return {
        "workload": head.info.key,
        "isPreemptor": head.preemptor,
        "generation": head.info.last_evaluated_generation,
        "hash": head.info.hash,
    }


def answer(case: Any) -> Any:
    trace = Trace(case)
    return {"steps": [trace.step(each) for each in case["steps"]]}
