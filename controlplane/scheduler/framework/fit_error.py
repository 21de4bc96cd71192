"""The reason why a pod fits no node, and its message.

Upstream: `pkg/scheduler/framework/types.go` (FitError, Diagnosis).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.framework.status import Code, NodeToStatus, Status

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

NO_NODES_AVAILABLE = "no nodes available to schedule pods"


class NoNodesAvailableError(Exception):
    """The cluster has no node at all."""

    def __init__(self) -> None:
        super().__init__(NO_NODES_AVAILABLE)


@attrs.define
class Diagnosis:
    """Findings about a pod that fits no node. Plugin sets are dicts used as sets."""

    node_to_status: NodeToStatus = attrs.Factory(NodeToStatus)
    unschedulable_plugins: dict[str, None] = attrs.Factory(dict)
    pending_plugins: dict[str, None] = attrs.Factory(dict)
    pre_filter_msg: str = ""
    post_filter_msg: str = ""

    def add_plugin_status(self, status: Status) -> None:
        """Remember the plugin behind a rejection."""
        if not status.plugin:
            return
        if status.code == Code.PENDING:
            self.pending_plugins[status.plugin] = None
        if status.is_rejected:
            self.unschedulable_plugins[status.plugin] = None


class FitError(Exception):
    """The pod fits on none of `num_all_nodes` nodes. `str()` is the message users see."""

    def __init__(self, pod: Pod | None, num_all_nodes: int, diagnosis: Diagnosis) -> None:
        super().__init__()
        self.pod = pod
        self.num_all_nodes = num_all_nodes
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return fit_error_message(self.num_all_nodes, self.diagnosis)


def fit_error_message(num_all_nodes: int, diagnosis: Diagnosis) -> str:
    """The sentence: what PreFilter said, or a histogram of reasons; then what PostFilter said."""
    out = f"0/{num_all_nodes} nodes are available:"
    if diagnosis.pre_filter_msg:
        out += f" {diagnosis.pre_filter_msg}."
    else:
        statuses = diagnosis.node_to_status
        counts = statuses.reason_counts()
        unexamined = num_all_nodes - len(statuses)
        if unexamined > 0:
            for reason in statuses.absent.reasons:
                counts[reason] = counts.get(reason, 0) + unexamined
        # Sorted as text, count included: "10 x" comes before "2 y".
        lines = sorted(f"{count} {reason}" for reason, count in counts.items())
        if lines:
            out += f" {', '.join(lines)}."
    if diagnosis.post_filter_msg:
        out += f" {diagnosis.post_filter_msg}"
    return out
