"""Objects that the controllers' tests share, as views."""

from __future__ import annotations

from typing import Any

from controlplane.api.apps import Deployment, ReplicaSet
from controlplane.api.core import Pod
from controlplane.api.node import Node
from controlplane.api.times import SECOND, format_time

NOW = 1_767_225_600 * SECOND


def owner(kind: str, name: str, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod(
    name: str, *, ready: bool | None = True, phase: str = "Running", node: str = "n", **more: Any
) -> Pod:
    """A pod; `since` is how many seconds ago it became ready, `age` how many ago it was created."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "default",
        "uid": more.get("uid", name),
        "labels": more.get("labels", {"app": "web"}),
        "creationTimestamp": format_time(NOW - more.get("age", 100) * SECOND),
    }
    for key in ("annotations", "ownerReferences"):
        if key in more:
            metadata[key] = more[key]
    if more.get("deleting"):
        metadata["deletionTimestamp"] = format_time(NOW)
    status: dict[str, Any] = {"phase": phase}
    if ready is not None:
        status["conditions"] = [
            {
                "type": "Ready",
                "status": "True" if ready else "False",
                "lastTransitionTime": format_time(NOW - more.get("since", 50) * SECOND),
            }
        ]
    if "restarts" in more:
        status["containerStatuses"] = [{"name": "c", "restartCount": more["restarts"]}]
    if "sidecar_restarts" in more:
        status["initContainerStatuses"] = [{"name": "s", "restartCount": more["sidecar_restarts"]}]
    spec = {
        "nodeName": node,
        "containers": [{"name": "c"}],
        "initContainers": [{"name": "s", "restartPolicy": more.get("init_policy", "Always")}],
    }
    return Pod.from_tree({"metadata": metadata, "spec": spec, "status": status})


TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "one"}]},
}


def replica_set(
    name: str, replicas: int, *, available: int | None = None, **more: Any
) -> ReplicaSet:
    count = replicas if available is None else available
    status: dict[str, Any] = {"replicas": more.get("actual", replicas), "availableReplicas": count}
    status["readyReplicas"] = count
    status["observedGeneration"] = more.get("generation", 1)
    status.update(more.get("status", {}))
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": more.get("template", TEMPLATE),
    }
    if "min_ready_seconds" in more:
        spec["minReadySeconds"] = more["min_ready_seconds"]
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "generation": more.get("generation", 1),
        "annotations": more.get("annotations", {}),
        "creationTimestamp": format_time(NOW - more.get("age", 0) * SECOND),
        "ownerReferences": more.get("owners", []),
    }
    return ReplicaSet.from_tree(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        }
    )


def deployment(replicas: int = 4, **more: Any) -> Deployment:
    strategy = more.get("strategy") or {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxSurge": more.get("surge", "25%"),
            "maxUnavailable": more.get("unavailable", "25%"),
        },
    }
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": more.get("template", TEMPLATE),
        "strategy": strategy,
        "progressDeadlineSeconds": more.get("deadline", 600),
        "revisionHistoryLimit": more.get("history", 10),
        "paused": more.get("paused", False),
    }
    if "min_ready_seconds" in more:
        spec["minReadySeconds"] = more["min_ready_seconds"]
    metadata = {
        "name": "web",
        "namespace": "default",
        "uid": "web",
        "generation": 1,
        "annotations": more.get("annotations", {}),
    }
    return Deployment.from_tree(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": spec,
            "status": more.get("status", {}),
        }
    )


def node(name: str = "n", conditions: dict[str, str] | None = None, **more: Any) -> Node:
    """A node; `heartbeat` is that of all its conditions, in nanoseconds."""
    beat = format_time(more.get("heartbeat", NOW))
    found = [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": beat,
            "lastTransitionTime": format_time(NOW),
        }
        for kind, status in (conditions if conditions is not None else {"Ready": "True"}).items()
    ]
    spec: dict[str, Any] = {"taints": more.get("taints", [])}
    if more.get("unschedulable"):
        spec["unschedulable"] = True
    metadata = {
        "name": name,
        "uid": name,
        "labels": more.get("labels", {}),
        "creationTimestamp": format_time(NOW),
    }
    return Node.from_tree({"metadata": metadata, "spec": spec, "status": {"conditions": found}})
