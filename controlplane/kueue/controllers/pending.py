"""Why a Workload holds no quota: reason and message of QuotaReserved=False.

Follows `resolveGranularUnadmittedQuotaReservedCondition` of `pkg/controller/core/workload_controller.go`.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from controlplane.api.decoding import decode
from controlplane.api.labels import Selector, SelectorError, from_label_selector
from controlplane.api.meta import LabelSelector
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.controllers.effects import Queues, Reader, WorkloadCache
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ADMISSION_GATED_BY
from controlplane.kueue.workload import status
from controlplane.kueue.workload.admissibility import inadmissible

__all__ = ["PendingReason"]

Resolved = tuple[str, str] | None

_OF_SCHEDULER: Final = frozenset(
    (
        "WaitingForQuota",
        "NoMatchingFlavor",
        "ExceedsMaxQuota",
        "TopologyPlacementFailed",
        "WaitingForPreemptedWorkloads",
        "WaitingForPodsReady",
        "PendingEvaluation",
    )
)
"""Reasons that the scheduler sets and only its next cycle replaces."""
_ASKED_ANEW: Final = frozenset(("", "Deactivated", "PendingEvaluation", "Suspended", "Pending"))
"""Reasons with which a Workload may be one of those passed over by their equivalence hash."""


def namespace_selector(queue: Tree) -> Selector:
    """The namespace selector of a cluster queue; without one it matches nothing."""
    tree = (queue.get("spec") or EMPTY_MAP).get("namespaceSelector")
    return from_label_selector(None if tree is None else decode(LabelSelector, tree))


@frozen
class PendingReason:
    """Finds the reason; each argument is what the workload controller itself has."""

    reader: Reader
    queues: Queues
    cache: WorkloadCache
    gates: Gates

    def resolve(
        self, workload: Tree, local: Tree | None, queue_name: str, queue: Tree | None
    ) -> Resolved:
        """Reason and message, None to leave the condition as it is.

        Args:
            workload: A Workload without quota.
            local: Its local queue, None if there is none.
            queue_name: Name of the cluster queue behind it, as the queue manager knows it.
            queue: That cluster queue, None if the queue manager does not have it.
        """
        blocked = self._blocked(workload, local, queue_name, queue)
        if not self.gates.enabled("UnadmittedWorkloadsObservability"):
            return None if blocked is None else ("Inadmissible", blocked[1])
        found = status.find(workload, status.QUOTA_RESERVED)
        if not status.is_active(workload):
            return "Deactivated", "The workload is deactivated"
        if found is not None and status.is_on_hold(workload):
            return found["reason"], found.get("message", "")
        if blocked is not None:
            return blocked
        if queue is not None and (text := self._inadmissible(workload, queue)):
            return "Misconfigured", text
        if status.has_admission_gate(workload, self.gates):
            holders = workload["metadata"]["annotations"][ADMISSION_GATED_BY]
            return "AdmissionGated", f"Admission is gated by: {holders}"
        return self._in_queue(workload, found)

    def _blocked(
        self, workload: Tree, local: Tree | None, queue_name: str, queue: Tree | None
    ) -> Resolved:
        name = workload["spec"].get("queueName") or ""
        if local is None:
            return "Misconfigured", f"LocalQueue {name} doesn't exist"
        if ((local.get("spec") or EMPTY_MAP).get("stopPolicy") or "None") != "None":
            return "Suspended", f"LocalQueue {name} is inactive"
        if queue is None:
            return "Misconfigured", f"ClusterQueue {queue_name} doesn't exist"
        name = queue["metadata"]["name"]
        if not self.cache.cluster_queue_active(name):
            return "Suspended", f"ClusterQueue {name} is inactive"
        return None

    def _inadmissible(self, workload: Tree, queue: Tree) -> str:
        try:
            selector = namespace_selector(queue)
        except SelectorError as error:
            return f"invalid namespace selector: {error}"
        name = workload["metadata"].get("namespace", "")
        namespace = self.reader.get("Namespace", "", name)
        ranges = self.reader.list("LimitRange", name)
        found = inadmissible(workload, namespace, selector, ranges)
        return "" if found is None else found.message

    def _in_queue(self, workload: Tree, found: Tree | None) -> Resolved:
        reason = None if found is None else found.get("reason", "")
        explicit = self.gates.enabled("UnadmittedWorkloadsExplicitStatus")
        may_be_passed_over = explicit if reason is None else reason in _ASKED_ANEW
        if may_be_passed_over and self.gates.enabled("SchedulingEquivalenceHashing"):
            failed = self.queues.no_fit_reason(workload)
            if failed is not None:
                text = (
                    "Bypassed scheduling evaluation because an equivalent workload recently failed"
                )
                return failed, text
        if found is not None and reason in _OF_SCHEDULER:
            return found["reason"], found.get("message", "")
        if found is None and not explicit:
            return None
        return "PendingEvaluation", "Workload is pending evaluation in the scheduling queue"
