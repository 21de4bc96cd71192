"""PreemptionToleration: preemption that leaves pods alone whose PriorityClass tolerates it.

Upstream: pkg/preemptiontoleration. Victims are evicted within the scheduling cycle.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.go_integers import int64
from controlplane.api.times import SECOND
from controlplane.scheduler.community.args import arguments
from controlplane.scheduler.framework.args import DefaultPreemptionArgs
from controlplane.scheduler.framework.interface import (
    Code,
    Filters,
    NodeToStatus,
    PostFilterResult,
    Status,
    StatusError,
    error,
)
from controlplane.scheduler.plugins.default_preemption import NEVER, TERMINATING, DefaultPreemption
from controlplane.scheduler.plugins.preemption import DryRun, dry_run, select_victims

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.scheduling import PriorityClass
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.state.listers import Lister
    from controlplane.scheduler.state.node_info import NodeInfo

_PREFIX: Final = "preemption-toleration.scheduling.x-k8s.io/"
_MINIMUM: Final = _PREFIX + "minimum-preemptable-priority"
_SECONDS: Final = _PREFIX + "toleration-seconds"
_WHOLE: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)


class PreemptionToleration(DefaultPreemption):
    """DefaultPreemption with exempted pods, pod by pod also for groups."""

    name = "PreemptionToleration"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        given = arguments(self.name, args)
        sizes = (given["MinCandidateNodesPercentage"], given["MinCandidateNodesAbsolute"])
        super().__init__(DefaultPreemptionArgs(*sizes), handle)
        self._clears, self._async = True, False
        self.reads = ("pod_disruption_budgets", "priority_classes")

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Choose victims on one node; without any the pod's nomination is taken back."""
        self.attempts += 1
        return self._preempt(state, pod, statuses, filters)

    def is_eligible(self, pod: Pod, statuses: NodeToStatus) -> tuple[bool, str]:
        """Return whether the pod may preempt now, and the reason if not."""
        if pod.spec.preemption_policy == "Never":
            return False, NEVER
        nominated = pod.status.nominated_node_name
        if not nominated or statuses.get(nominated).code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return True, ""
        node = self._handle.snapshot.get(nominated)
        priority = pod.spec.priority or 0
        for info in () if node is None else node.pods:
            gone = info.pod.metadata.deletion_timestamp is not None
            if gone and (info.pod.spec.priority or 0) < priority:
                return False, TERMINATING
        return True, ""

    def find_candidates(
        self, state: CycleState, pod: Pod, statuses: NodeToStatus, filters: Filters
    ) -> DryRun:
        """Try preemption on potential nodes, from an offset that upstream draws at random."""
        nodes = self.potential_nodes(statuses)
        if not nodes:
            return DryRun()
        offset = 0
        if len(nodes) > 1:
            offset = self._handle.choose_offset("scheduler.preemption.offset", len(nodes))
        return self.dry_run(state, pod, nodes, offset, self.candidates_wanted(len(nodes)), filters)

    def dry_run(
        self,
        state: CycleState,
        pod: Pod,
        nodes: Sequence[NodeInfo],
        offset: int,
        wanted: int,
        filters: Filters,
    ) -> DryRun:
        """Victims per node, from `offset` on, until enough candidates are found."""
        listers, now = self._handle.listers, self._handle.clock()
        budgets = list(listers.pod_disruption_budgets.list())

        def exempt(victim: Pod) -> bool:
            return exempted(victim, pod, listers.priority_classes, now)

        select = partial(select_victims, exempt=exempt)
        return dry_run(filters, state, pod, nodes, budgets, offset, wanted, select=select)


def exempted(victim: Pod, preemptor: Pod, classes: Lister[PriorityClass], now: int) -> bool:
    """Return whether a pod tolerates preemption by another at a time. Raises StatusError without its PriorityClass."""
    name = victim.spec.priority_class_name
    if not name:
        return False
    found = classes.get("", name)
    if found is None:
        raise StatusError(error(f'priorityclass.scheduling.k8s.io "{name}" not found'))
    if preemptor.spec.preemption_policy == "Never":
        return True
    policy = _policy(found)
    if policy is None or (preemptor.spec.priority or 0) >= policy[0]:
        return False
    if policy[1] < 0:
        return True
    for condition in victim.status.conditions:
        if condition.type == "PodScheduled":
            if condition.status != "True":
                return True
            since = condition.last_transition_time
            return since is not None and since + int64(policy[1] * SECOND) > now
    return True


def _policy(found: PriorityClass) -> tuple[int, int] | None:
    """Return the priority from which on pods preempt at once, and for how many seconds others do not.

    None: an annotation cannot be read, so that nothing is tolerated.
    """
    annotations = found.tree["metadata"].get("annotations") or {}
    minimum = _parsed(annotations.get(_MINIMUM), found.value + 1, 32)
    seconds = _parsed(annotations.get(_SECONDS), 0, 64)
    return None if minimum is None or seconds is None else (minimum, seconds)


def _parsed(text: str | None, default: int, bits: int) -> int | None:
    if text is None:
        return default
    number = int(text) if _WHOLE.match(text) else 0
    fits = -(1 << bits - 1) <= number < 1 << bits - 1
    return number if _WHOLE.match(text) and fits else None
