"""Words for authors of writes, and for times."""

from __future__ import annotations

from typing import Final

from controlplane.api.times import SECOND

__all__ = ["actor_of", "span"]

PROCESSES: Final = {
    "user": "the user",
    "scheduler": "the scheduler",
    "descheduler": "the descheduler",
}
CONTROLLERS: Final = {
    "replicaset": "the ReplicaSet controller",
    "deployment": "the Deployment controller",
    "statefulset": "the StatefulSet controller",
    "daemonset": "the DaemonSet controller",
    "replicationcontroller": "the ReplicationController controller",
    "horizontalpodautoscaler": "the HorizontalPodAutoscaler controller",
    "horizontalpodautoscaling": "the HorizontalPodAutoscaler controller",
    "taint-eviction": "the taint eviction controller",
    "garbagecollector": "the garbage collector",
    "podgc": "the pod garbage collector",
}


def actor_of(by: str) -> str:
    """The author of a write (PROCESS/PART) in words."""
    process, _, part = by.partition("/")
    found = PROCESSES.get(process) or CONTROLLERS.get(part)
    if found:
        return found
    if process.startswith("controller-manager"):
        return f"the {part} controller"
    if part in ("status-manager", "kubelet", "pleg", "pod-workers"):
        return f"the kubelet of {process}"
    return process


def span(ns: int) -> str:
    """A stretch of virtual time: 40 s, 25 min, 2 h."""
    seconds = round(ns / SECOND)
    if seconds < 120:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"
