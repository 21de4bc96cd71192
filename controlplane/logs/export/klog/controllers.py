"""The log lines of controllers and of all clients.

Upstream: pkg/controller/deployment/deployment_controller.go, controller_utils.go, util/node/controller_utils.go,
tainteviction/taint_eviction.go; apimachinery's util/runtime (HandleError); client-go's
tools/leaderelection, tools/record and tools/cache/reflector.go.
"""

from __future__ import annotations

from typing import Final

from controlplane.logs.export.klog.said import Said, Teller, info, key_of, problem
from controlplane.logs.reading import Line

__all__ = ["Controllers"]

DEPLOYMENT, ELECTION = "deployment_controller.go", "leaderelection.go"
UNHANDLED: Final[dict[str, tuple[str, str]]] = {
    "replicaset": ("replica_set.go", 'sync "{key}" failed with {error}'),
    "job": ("job_controller.go", "syncing job: {error}"),
    "daemonset": ("daemon_controller.go", "{key} failed with : {error}"),
    "statefulset": ("stateful_set.go", "error syncing StatefulSet {key}, requeuing: {error}"),
}
"""In which file, and in which words, controllers hand an error to HandleError."""
OTHERS: Final = ("controller.go", "{error}")


class Controllers:
    """The messages of controllers and clients."""

    def __init__(self) -> None:
        self._controllers: set[str] = set()
        self.tellers: dict[str, Teller] = {
            "controller.popped": self._popped,
            "controller.retry": _retried,
            "controller.dropped": _dropped,
            "deployment.scale": _scaled,
            "node.silent": _silent,
            "pod.evicted": _evicted,
            "apiserver.write": self._written,
            "election.leading": _leads,
            "election.lost": _lost,
            "informer.synced": _synced,
            "reflector.error": _not_watched,
        }

    def _popped(self, line: Line) -> list[Said]:
        self._controllers.add(line.actor)
        if line.data.get("controller") != "deployment":
            return []
        key = line.data.get("key", "")
        return [info(4, DEPLOYMENT, "Started syncing deployment", deployment=key)]

    def _written(self, line: Line) -> list[Said]:
        data = line.data
        if data.get("verb") != "create pods" or data.get("code", 0) >= 300:
            return []
        if data.get("by") not in self._controllers:
            return []
        pod = key_of(line)
        owner = pod.rpartition("/")[2].rpartition("-")[0]  # pods have their owner's name, and more
        return [info(4, "controller_utils.go", "Controller created pod", controller=owner, pod=pod)]


def _retried(line: Line) -> list[Said]:
    data = line.data
    name, key, error = (data.get(part, "") for part in ("controller", "key", "error"))
    if name == "deployment":
        return [info(2, DEPLOYMENT, "Error syncing deployment", deployment=key, err=error)]
    file, said = UNHANDLED.get(name, OTHERS)
    return [problem(file, "Unhandled Error", err=said.format(key=key, error=error))]


def _dropped(line: Line) -> list[Said]:
    data = line.data
    if data.get("controller") != "deployment":
        return _retried(line)
    values = {"deployment": data.get("key", ""), "err": data.get("error", "")}
    return [
        problem(DEPLOYMENT, "Unhandled Error", err=data.get("error", "")),
        info(2, DEPLOYMENT, "Dropping deployment out of the queue", **values),
    ]


def _scaled(line: Line) -> list[Said]:
    data = line.data
    came, size = data.get("from", 0), data.get("to", 0)
    way = "up" if size > came else "down"
    name = data.get("replica_set", "")
    return [
        info(
            3,
            "event.go",
            "Event occurred",
            object=key_of(line),
            fieldPath="",
            kind="Deployment",
            apiVersion="apps/v1",
            type="Normal",
            reason="ScalingReplicaSet",
            message=f"Scaled {way} replica set {name} from {came} to {size}",
        )
    ]


def _silent(line: Line) -> list[Said]:
    text = "Recording status change event message for node"
    node = key_of(line)
    return [info(2, "controller_utils.go", text, status="NodeNotReady", node=node)]


def _evicted(line: Line) -> list[Said]:
    controller = "taint-eviction-controller"
    return [
        info(0, "taint_eviction.go", "Deleting pod", controller=controller, pod=key_of(line)),
    ]


def _leads(line: Line) -> list[Said]:
    return [info(0, ELECTION, "Successfully acquired lease", lock=line.data.get("lease", ""))]


def _lost(line: Line) -> list[Said]:
    return [info(0, ELECTION, "Failed to renew lease", lock=line.data.get("lease", ""))]


def _synced(line: Line) -> list[Said]:
    resource = line.data.get("resource", "")
    return [info(2, "reflector.go", "Caches populated", type=resource, reflector=line.actor)]


def _not_watched(line: Line) -> list[Said]:
    err = line.data.get("message", "")
    return [problem("reflector.go", "Failed to watch", reflector=line.actor, err=err)]
