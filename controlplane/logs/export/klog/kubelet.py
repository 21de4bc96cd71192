"""The log lines of kubelets.

Upstream: pkg/kubelet/kubelet.go, pod_workers.go, kubelet_node_status.go, status/status_manager.go,
allocation/allocation_manager.go, eviction/eviction_manager.go, cm/cpumanager/state/state_mem.go and
cm/memorymanager/state/state_mem.go. Left out is what the event log does not have: patches and statuses
in full, and when a container is asked to stop.
"""

from __future__ import annotations

from typing import Any, Final

from controlplane.logs.export.klog.said import Said, Teller, info, key_of, problem
from controlplane.logs.reading import Line

__all__ = ["Kubelets"]

KUBELET, WORKERS, STATUS = "kubelet.go", "pod_workers.go", "status_manager.go"
NODE, STATE, EVICTION = "kubelet_node_status.go", "state_mem.go", "eviction_manager.go"
RECONCILE: Final = "RECONCILE"
PLEG: Final = "PLEG"
CHANGES: Final = {"started": "ContainerStarted", "ended": "ContainerDied"}
RESOURCES: Final = {
    "memory.available": "memory",
    "nodefs.available": "ephemeral-storage",
    "nodefs.inodesFree": "inodes",
    "imagefs.available": "ephemeral-storage",
    "imagefs.inodesFree": "inodes",
    "pid.available": "pids",
}
"""The resource that each eviction signal is about. Upstream: eviction/helpers.go, signalToResource."""


class Kubelets:
    """The messages of kubelets; what some of them say depends on what was heard of the pod before."""

    def __init__(self) -> None:
        self._ending: dict[str, str] = {}
        """The reasons why pods end, by UID."""
        self._containers: dict[str, tuple[str, str]] = {}
        """The last event of a pod's container, and the container's id, by the pod's UID."""
        self._nodes: set[str] = set()
        self.tellers: dict[str, Teller] = {
            "kubelet.heard": self._heard,
            "kubelet.worker": self._worker,
            "kubelet.container": self._container,
            "kubelet.assigned": _assigned,
            "kubelet.rejected": _rejected,
            "kubelet.evicted": self._evicted,
            "kubelet.fatal": _fatal,
            "kubelet.error": _error,
            "apiserver.write": self._written,
        }

    def _heard(self, line: Line) -> list[Said]:
        operation, pods = line.data.get("operation", ""), line.data.get("pods", [key_of(line)])
        if operation == PLEG:
            change, container = self._containers.get(line.uid, ("", ""))
            event = {"ID": line.uid, "Type": change, "Data": container}
            text = "SyncLoop (PLEG): event for pod"
            return [info(2, KUBELET, text, pod=key_of(line), event=event)]
        for uid in line.data.get("uids", [line.uid]):
            if operation in ("DELETE", "REMOVE"):
                self._ending.setdefault(uid, "Pod is marked for graceful deletion, begin teardown")
        verbosity = 4 if operation == RECONCILE else 2
        source = line.data.get("source", "")
        return [info(verbosity, KUBELET, f"SyncLoop {operation}", source=source, pods=pods)]

    def _worker(self, line: Line) -> list[Said]:
        values = {"pod": key_of(line), "podUID": line.uid}
        phase = line.data.get("phase")
        if phase == "sync":
            text = "Pod is being synced for the first time"
            return [info(4, WORKERS, text, **values, updateType="create")]
        if phase == "terminating":
            ended = "Pod is in a terminal phase (success/failed), begin teardown"
            text = self._ending.pop(line.uid, ended)
            kind = "kill" if "evicted" in text else "update"
            return [info(4, WORKERS, text, **values, updateType=kind)]
        if phase == "terminated":
            return [info(4, KUBELET, "Pod termination stopped all running containers", **values)]
        self._containers.pop(line.uid, None)
        return [
            info(4, KUBELET, "Pod is terminated and will need no more status updates", **values),
            info(4, WORKERS, "Pod is complete and the worker can now stop", podUID=line.uid),
        ]

    def _container(self, line: Line) -> list[Said]:
        """It is the next relist that tells of it."""
        data = line.data
        self._containers[line.uid] = (CHANGES.get(data.get("change", ""), ""), data.get("id", ""))
        return []

    def _evicted(self, line: Line) -> list[Said]:
        self._ending[line.uid] = "Pod is being evicted by the kubelet, begin teardown"
        signal = line.data.get("signal", "")
        resource = RESOURCES.get(signal, signal)
        text = "Eviction manager: must evict pod(s) to reclaim"
        return [
            info(0, EVICTION, text, resourceName=resource),
            info(0, EVICTION, "Eviction manager: pod is evicted successfully", pod=key_of(line)),
        ]

    def _written(self, line: Line) -> list[Said]:
        data = line.data
        verb, by, code = data.get("verb", ""), data.get("by", ""), data.get("code", 0)
        if verb == "create nodes" and line.obj == f"Node/{by}":
            self._nodes.add(by)
            return _registered(by, code)
        if by not in self._nodes:
            return []
        if verb == "patch pods/status" and code < 300:
            text = "Status for pod updated successfully"
            return [info(3, STATUS, text, pod=key_of(line), status=_status(data))]
        if verb == "patch pods/status":
            why = {"pod": key_of(line), "err": data.get("reason", "")}
            return [info(0, STATUS, "Failed to update status for pod", **why)]
        if verb == "delete pods" and code < 300:
            text = "Pod fully terminated and removed from etcd"
            return [info(3, STATUS, text, pod=key_of(line))]
        return []


def _registered(node: str, code: int) -> list[Said]:
    found = [info(0, NODE, "Attempting to register node", node=node)]
    if code == 409:
        found.append(info(0, NODE, "Node was previously registered", node=node))
    if code < 300 or code == 409:
        found.append(info(0, NODE, "Successfully registered node", node=node))
    return found


def _status(data: dict[str, Any]) -> dict[str, Any]:
    """As much of a status as the event log has."""
    return {"phase": data["phase"]} if "phase" in data else {}


def _assigned(line: Line) -> list[Said]:
    data = line.data
    cpus = data.get("file", "").startswith("cpu")
    has, whole = data.get("has", ""), data.get("container") == "*"
    values: dict[str, Any] = {"podUID": line.uid}
    if whole:
        if cpus and has:
            return [info(0, STATE, "Updated pod CPUSet", **values, cpuSet=has)]
        return []
    values["containerName"] = data.get("container", "")
    if cpus:
        if has:
            return [info(0, STATE, "Updated desired CPUSet", **values, cpuSet=has)]
        return [info(2, STATE, "Deleted CPUSet assignment", **values)]
    if has:
        return [info(0, STATE, "Updated memory state", **values)]
    return [info(2, STATE, "Deleted memory assignment", **values)]


def _rejected(line: Line) -> list[Said]:
    data = line.data
    return [
        info(
            0,
            "allocation_manager.go",
            "Pod admission denied",
            podUID=line.uid,
            pod=key_of(line),
            reason=data.get("reason", ""),
            message=data.get("message", ""),
        )
    ]


def _fatal(line: Line) -> list[Said]:
    err = line.data.get("message", "")
    return [problem(KUBELET, "Failed to start ContainerManager", err=err)]


def _error(line: Line) -> list[Said]:
    err = line.data.get("message", "")
    if line.obj.startswith("Pod/"):
        return [info(0, STATUS, "Failed to update status for pod", pod=key_of(line), err=err)]
    return [problem(NODE, "Error updating node status, will retry", err=err)]
