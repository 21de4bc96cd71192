"""The log lines of kube-scheduler. Upstream: pkg/scheduler/schedule_one.go, backend/cache/cache.go."""

from __future__ import annotations

from typing import Any

from controlplane.logs.export.klog.said import Said, Teller, info, key_of, problem
from controlplane.logs.reading import Line

__all__ = ["Scheduler"]

FILE = "schedule_one.go"
NO_NODES = "no nodes available to schedule pods"


class Scheduler:
    """The messages of schedulers; what one chose is remembered until the pod is bound."""

    def __init__(self) -> None:
        self._chosen: dict[str, dict[str, Any]] = {}
        self.tellers: dict[str, Teller] = {
            "scheduler.popped": _popped,
            "scheduler.assumed": self._assumed,
            "scheduler.failed": _failed,
            "scheduler.error": _error,
            "scheduler.expired": _expired,
            "apiserver.write": self._written,
        }

    def _assumed(self, line: Line) -> list[Said]:
        self._chosen[line.uid] = line.data
        return []

    def _written(self, line: Line) -> list[Said]:
        data = line.data
        if data.get("verb") != "create pods/binding" or data.get("code", 0) >= 300:
            return []
        chosen = self._chosen.pop(line.uid, {})
        return [
            info(
                2,
                FILE,
                "Successfully bound pod to node",
                pod=key_of(line),
                node=data.get("node", chosen.get("node", "")),
                evaluatedNodes=chosen.get("evaluated", 0),
                feasibleNodes=chosen.get("feasible", 0),
            )
        ]


def _popped(line: Line) -> list[Said]:
    pod = key_of(line)
    return [
        info(4, FILE, "About to try and schedule pod", pod=pod),
        info(3, FILE, "Attempting to schedule pod", pod=pod),
    ]


def _failed(line: Line) -> list[Said]:
    message = line.data.get("message", "")
    values = {"pod": key_of(line), "err": message}
    if message == NO_NODES:
        text = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
        return [info(2, FILE, text, **values)]
    if line.data.get("reason") == "Unschedulable":
        return [info(2, FILE, "Unable to schedule pod; no fit; waiting", **values)]
    return [problem(FILE, "Error scheduling pod; retrying", **values)]


def _error(line: Line) -> list[Said]:
    values = {"pod": key_of(line)} if line.obj else {}
    return [problem(FILE, "Error occurred", **values, err=line.data.get("message", ""))]


def _expired(line: Line) -> list[Said]:
    return [Said("W", 0, "cache.go", "Pod expired", {"pod": key_of(line)})]
