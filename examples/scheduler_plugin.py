"""A scheduler plugin: keeps pods off nodes in maintenance, prefers quiet ones, lets pods start one after another.

    controlplane run --scheduler-plugin examples/scheduler_plugin.py \
        --scheduler-config examples/scheduler_config.yaml examples/shop.yaml
"""

from __future__ import annotations

from typing import Any

from controlplane.scheduler.framework import (
    Code,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    Handle,
    NodeInfo,
    PermitPlugin,
    Pod,
    ScorePlugin,
    Status,
    unschedulable,
)
from controlplane.scheduler.framework import events as ev

SECOND = 1_000_000_000


class Maintenance(FilterPlugin, ScorePlugin, EnqueueExtensions):
    """Refuses nodes that carry a label, and rates the others by how few pods they have."""

    name = "Maintenance"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._label = (args or {}).get("label", "example.com/maintenance")

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if self._label in node.node.labels:
            return unschedulable("node(s) were in maintenance")
        return None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return max(0, 100 - len(node.pods))

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A pod refused by this plugin is worth another try when a node comes or its labels change."""
        return [ev.ClusterEventWithHint(ev.ClusterEvent(ev.NODE, ev.ADD | ev.UPDATE_NODE_LABEL))]


class OneByOne(PermitPlugin):
    """Holds every pod that asks for it in a label, until its time is up; then it is tried again."""

    name = "OneByOne"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._seconds = (args or {}).get("seconds", 5)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, int]:
        if pod.labels.get("example.com/hold") == "true":
            return Status(Code.WAIT), self._seconds * SECOND
        return None, 0
