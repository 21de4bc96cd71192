"""A world with one admission check of ProvisioningRequests."""

from __future__ import annotations

from typing import Any

from controlplane.kueue.controllers.effects import ApplyStatus, Create, Effect
from controlplane.kueue.gates import Gates
from controlplane.kueue.provisioning.controller import ProvisioningController
from tests.golden.kueue_server import Server
from tests.kueue.objects import START, pod_set, workload

CLASS = "check-capacity.autoscaling.x-k8s.io"
OURS = "kueue.x-k8s.io/provisioning-request"


def config(name: str = "config", limit: int = 3, **spec: Any) -> Any:
    retries = {"backoffLimitCount": limit, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    known = {"provisioningClassName": CLASS, "retryStrategy": retries, **spec}
    return {"metadata": {"name": name}, "spec": known}


def check(name: str = "check", controller: str = OURS, **parameters: str) -> Any:
    named = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}
    spec = {"controllerName": controller, "parameters": {**named, **parameters}}
    return {"metadata": {"name": name, "generation": 1}, "spec": spec}


def state(name: str = "check", value: str = "Pending", **fields: Any) -> Any:
    since = "2025-03-01T11:59:00Z"
    return {"name": name, "state": value, "message": "", "lastTransitionTime": since, **fields}


def reserved(*states: Any, pod_sets: Any = None, is_admitted: bool = False, **fields: Any) -> Any:
    """A Workload `work` with quota and with these states of checks."""
    sets = pod_sets or [pod_set(count=3, requests={"cpu": "2"})]
    made = workload("work", pod_sets=sets)
    assignments = [
        {"name": each["name"], "count": each["count"], "flavors": {"cpu": "default"}}
        for each in sets
    ]
    true = ("QuotaReserved", "Admitted") if is_admitted else ("QuotaReserved",)
    status = {
        "admission": {"clusterQueue": "queue", "podSetAssignments": assignments},
        "conditions": [{"type": kind, "status": "True"} for kind in true],
        "admissionChecks": list(states),
    }
    return {**made, "status": status, **fields}


def request(name: str = "work-check-1", *conditions: tuple[str, str], **fields: Any) -> Any:
    """A ProvisioningRequest of `work` for its pod set `main`; conditions that are true with their messages."""
    found = [
        {"type": kind, "status": "True", "reason": kind, "message": text}
        for kind, text in conditions
    ]
    owner = {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "name": "work",
        "uid": "uid-work", "controller": True,
    }  # fmt: skip
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "ownerReferences": [owner],
        },
        "spec": {
            "provisioningClassName": CLASS,
            "podSets": [{"podTemplateRef": {"name": f"ppt-{name}-main"}, "count": 3}],
            **fields,
        },
        "status": {"conditions": found},
    }


class World(Server):
    """Objects, and the reconciler of Workloads; states of checks are applied by name, as by the API server."""

    def __init__(self, work: Any, *, configs: Any = None, checks: Any = None, **gates: bool):
        super().__init__({"resourceFlavors": [flavored()], "workloads": [work]})
        for each in [config()] if configs is None else configs:
            self.put("ProvisioningRequestConfig", each)
        for each in [check()] if checks is None else checks:
            self.put("AdmissionCheck", each)
        self.controller = ProvisioningController(self, lambda: START, Gates(gates))

    def carry_out(self, effect: Effect) -> Any:
        if isinstance(effect, ApplyStatus):
            self.writes.append(effect)
            old = self.work
            known = {each["name"]: each for each in old["status"].get("admissionChecks", ())}
            known |= {each["name"]: each for each in effect.body["status"]["admissionChecks"]}
            status = {**old["status"], "admissionChecks": list(known.values())}
            return self.put("Workload", {**old, "status": status})
        if isinstance(effect, Create):
            meta = effect.body["metadata"]
            super().carry_out(effect)
            named = {**meta, "uid": f"uid-{meta['name']}"}
            return self.put(effect.kind, {**effect.body, "metadata": named})
        return super().carry_out(effect)

    @property
    def work(self) -> Any:
        return self.get("Workload", "default", "work")

    @property
    def states(self) -> Any:
        return {each["name"]: each for each in self.work["status"]["admissionChecks"]}

    @property
    def requests(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.list("ProvisioningRequest")]

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(reason, text) for _, _, reason, text in self.events]

    def reconciled(self, refuse: Any = lambda _: None) -> World:
        self.run(self.controller.reconcile("default", "work"), refuse)
        return self


def flavored() -> Any:
    return {"metadata": {"name": "default"}, "spec": {"nodeLabels": {"pool": "a"}}}
