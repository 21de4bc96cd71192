"""One attempt to schedule one pod: what is known so far.

Upstream spreads this over arguments of `pkg/scheduler/schedule_one.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.fit_error import FitError, NoNodesAvailableError
from controlplane.scheduler.framework.interface import Code, Status
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION, NominatingInfo
from controlplane.scheduler.framework.queued_pod_info import QueuedPodInfo
from controlplane.scheduler.framework.runtime import Framework

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.cycle.explanation import Explanation


@attrs.frozen
class ScheduleResult:
    """The node for a pod, and how many nodes were evaluated to find it."""

    node_name: str
    evaluated_nodes: int
    feasible_nodes: int


@attrs.frozen
class Failure:
    """The reason for a failed attempt: a code, and an error with details (such as a FitError)."""

    code: Code
    err: Exception
    nominating: NominatingInfo | None = CLEAR_NOMINATION

    @property
    def is_rejected(self) -> bool:
        """Return whether the pod was refused rather than hit by an error."""
        return Status(self.code).is_rejected

    @property
    def message(self) -> str:
        """The text for condition and event."""
        return str(self.err)

    @property
    def fit_error(self) -> FitError | None:
        """The FitError, when it is one."""
        return self.err if isinstance(self.err, FitError) else None

    @property
    def no_nodes(self) -> bool:
        """Return whether the cluster had no node at all."""
        return isinstance(self.err, NoNodesAvailableError)


class SchedulingError(Exception):
    """An error within a cycle, with upstream's text."""


@attrs.define(eq=False)
class Attempt:
    """A pod on its way from the queue to a node. `info` is replaced by a copy when assumed."""

    info: QueuedPodInfo
    framework: Framework
    state: CycleState
    started: int
    popped_uid: str
    cycle: int = 0
    """Number of the scheduling cycle (pods popped so far)."""
    result: ScheduleResult | None = None
    failure: Failure | None = None
    waits: dict[str, int] = attrs.Factory(dict)
    """Permit plugins the pod waits for, with their timeouts in nanoseconds."""
    has_pre_bind_work: bool = False
    explanation: Explanation | None = None
    """Answers of every plugin, when asked for (see `explain`)."""
    scores: dict[str, dict[str, int]] | None = None
    """Node -> plugin -> weighted score, where few nodes were feasible (see `EXPLAINED_NODES`)."""
    totals: list[tuple[str, int]] | None = None
    """(node, total score) in the order in which nodes were found, when asked for."""

    @property
    def pod(self) -> Pod:
        """The pod; once assumed, with its node."""
        return self.info.pod

    @property
    def node_name(self) -> str:
        """The chosen node."""
        return "" if self.result is None else self.result.node_name
