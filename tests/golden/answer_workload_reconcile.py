"""Kueue: a Workload is created in a settled world, its create event is delivered, then reconciled once."""

from __future__ import annotations

from typing import Any

from controlplane.api.times import SECOND, parse_time
from controlplane.kueue.controllers.effects import ReconcileError
from controlplane.kueue.controllers.workload import WaitForPodsReady, WorkloadController
from controlplane.kueue.controllers.workload_events import WorkloadEvents
from controlplane.kueue.gates import Gates
from controlplane.kueue.workload import status
from controlplane.kueue.workload.status_checks import requeue_at
from tests.golden.answer_workload_state import clean
from tests.golden.kueue_server import Server, without_empty

START = parse_time("2025-03-01T12:00:00Z")


class PlainQueues:
    """Queue manager and cache, as far as one workload needs them."""

    def __init__(self, server: Server, gates: Gates) -> None:
        self.server, self.gates = server, gates
        self.heap: dict[str, None] = {}
        self.inadmissible: dict[str, None] = {}
        self.cached: dict[str, str] = {}

    def cluster_queue_for(self, workload: Any) -> tuple[str, bool]:
        namespace = workload["metadata"]["namespace"]
        local = self.server.get("LocalQueue", namespace, workload["spec"].get("queueName") or "")
        if local is None or local["spec"].get("stopPolicy", "None") != "None":
            return "", False
        name = local["spec"].get("clusterQueue", "")
        return name, self.server.get("ClusterQueue", "", name) is not None

    def no_fit_reason(self, workload: Any) -> None:
        return None

    def add_or_update(self, workload: Any) -> str | None:
        name, known = self.cluster_queue_for(workload)
        if not name:
            return "localQueue doesn't exist or inactive"
        if not known:
            return "clusterQueue doesn't exist"
        key = status.key_of(workload)
        requeued = status.find(workload, status.REQUEUED)
        at = requeue_at(workload)
        waits = (requeued is not None and requeued["status"] == "False") or (
            at is not None and at > START
        )
        if key in self.inadmissible:
            return None
        (self.inadmissible if waits else self.heap)[key] = None
        return None

    add_or_update_locked = add_or_update

    def delete(self, key: str) -> None:
        self.heap.pop(key, None)
        self.inadmissible.pop(key, None)

    forget = delete

    def add_finished(self, workload: Any) -> None: ...

    def release(self, key: str, action: Any) -> None:
        action()

    def delete_second_pass(self, key: str) -> None: ...

    def queue_second_pass(self, workload: Any, iteration: int) -> None: ...

    def cache_workload(self, workload: Any) -> bool:
        admission = workload.get("status", {}).get("admission")
        if admission is None or not status.active_quota_reservation(workload):
            return False
        if self.server.get("ClusterQueue", "", admission["clusterQueue"]) is None:
            return False
        self.cached[status.key_of(workload)] = admission["clusterQueue"]
        return True

    def delete_workload(self, key: str) -> None:
        self.cached.pop(key, None)

    def cluster_queue_active(self, name: str) -> bool:
        queue = self.server.get("ClusterQueue", "", name)
        if queue is None or queue["spec"].get("stopPolicy", "None") != "None":
            return False
        if queue["metadata"].get("deletionTimestamp"):
            return False
        flavors = [
            each["name"]
            for group in queue["spec"].get("resourceGroups", ())
            for each in group["flavors"]
        ]
        checks = queue["spec"].get("admissionChecksStrategy", {}).get("admissionChecks", ())
        return all(
            self.server.get("ResourceFlavor", "", each) is not None for each in flavors
        ) and all(self._check_active(each["name"]) for each in checks)

    def _check_active(self, name: str) -> bool:
        check = self.server.get("AdmissionCheck", "", name)
        return check is not None and status.is_true(check, "Active")

    def shown(self) -> Any:
        cached = [key for key, queue in self.cached.items() if self.cluster_queue_active(queue)]
        shown = {"heap": [*self.heap], "inadmissible": [*self.inadmissible], "cached": cached}
        return {name: keys for name, keys in shown.items() if keys}


class PlainCache:
    """The cache's side of `PlainQueues`."""

    def __init__(self, queues: PlainQueues) -> None:
        self.add_or_update = queues.cache_workload
        self.delete_workload = queues.delete_workload
        self.cluster_queue_active = queues.cluster_queue_active


def pods_ready_of(config: Any) -> WaitForPodsReady | None:
    if config is None:
        return None
    recovery = config.get("recoveryTimeoutSeconds")
    return WaitForPodsReady(
        timeout=config["timeoutSeconds"] * SECOND,
        recovery_timeout=None if recovery is None else recovery * SECOND,
        backoff_limit=config.get("backoffLimitCount"),
        backoff_base_seconds=config["backoffBaseSeconds"],
        backoff_max_seconds=config["backoffMaxSeconds"],
    )


def answer(case: Any) -> Any:
    gates = Gates(case.get("gates"))
    server = Server(case["world"])
    workload = case["world"]["workloads"][0]
    queues = PlainQueues(server, gates)
    controller = WorkloadController(
        server,
        queues,
        PlainCache(queues),
        lambda: START,
        gates,
        pods_ready_of(case.get("waitForPodsReady")),
    )
    WorkloadEvents(controller).created(workload)
    after_create = queues.shown()
    metadata = workload["metadata"]
    said: Any = {"afterCreateEvent": after_create}
    try:
        done = server.run(controller.reconcile(metadata["namespace"], metadata["name"]))
        if done.requeue_after:
            said["requeueAfterSeconds"] = done.requeue_after / SECOND
    except ReconcileError as error:
        said["error"] = str(error)
    new = server.get("Workload", metadata["namespace"], metadata["name"])
    if server.events:
        said["events"] = sorted(event[1:] for event in server.events)
    shown = {"active": status.is_active(new), **clean(new)}
    changed = without_empty(new) != without_empty(workload)
    return {**said, "changed": changed, "queues": queues.shown(), "workload": shown}
