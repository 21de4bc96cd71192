"""A workload in a scheduling cycle.

Follows `entry` of `pkg/scheduler/scheduler.go`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from controlplane.api.tree import Tree
from controlplane.kueue.amounts import Quotas, add, quantity_text, sub
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.flavors.assignment import Assignment
from controlplane.kueue.flavors.topology import net_usage
from controlplane.kueue.gates import Gates
from controlplane.kueue.preemption.candidates import Target
from controlplane.kueue.queues.reasons import Requeue
from controlplane.kueue.workload.info import Info, LastAssignment, Usage
from controlplane.kueue.workload.status import has_quota_reservation, status_of


class State(Enum):
    """Outcomes of a workload in the cycle."""

    NONE = ""
    NOMINATED = "nominated"
    SKIPPED = "skipped"
    GATED = "preemptionGated"
    EVICTED = "evicted"
    ASSUMED = "assumed"


@dataclass
class Entry:
    """A workload, its assignment, and why it is not admitted."""

    info: Info
    queue: ClusterQueueSnapshot | None
    preemptor: bool = False
    assignment: Assignment = field(default_factory=lambda: Assignment(0, 0, ""))
    targets: list[Target] = field(default_factory=list)
    state: State = State.NONE
    message: str = ""
    reason: str = ""
    """The reason that its condition QuotaReserved gets."""
    requeue: Requeue = Requeue.GENERIC

    @property
    def snapshot(self) -> ClusterQueueSnapshot:
        """Its queue; a nominated workload has one."""
        assert self.queue is not None
        return self.queue

    def set_last_assignment(self, last: LastAssignment | None) -> None:
        """Remember how far the search for flavors came."""
        self.info = replace(self.info, last_assignment=last)

    def record(self, assignment: Assignment, targets: list[Target]) -> None:
        """Take a found assignment."""
        self.assignment, self.targets = assignment, targets
        self.message = assignment.message()
        self.set_last_assignment(assignment.last_state)

    def skip(self, message: str, reason: str, gates: Gates) -> None:
        """Give up in this cycle because of another workload."""
        self.state, self.message, self.reason = State.SKIPPED, message, reason
        if not gates.enabled("FlavorFungibilityPreserveScanProgress"):
            self.set_last_assignment(None)

    def usage(self, gates: Gates) -> Usage:
        """Usage of the assignment beyond the workload's own."""
        return self.net(self.assignment.usage, gates)

    def net(self, quota: Quotas, gates: Gates) -> Usage:
        """The same with other amounts of quota."""
        workload = self.info.obj
        tas = {}
        if gates.enabled("TopologyAwareScheduling"):
            admission = status_of(workload).get("admission")
            tas = net_usage(self.assignment, self.info, self.snapshot, admission)
        return Usage({} if has_quota_reservation(workload) else quota, {}, tas)

    def to_reserve(self) -> Quotas:
        """Return the quota to hold free for a workload that finds no victims: the rest of its queue's quota."""
        queue = self.snapshot
        reserved: Quotas = {}
        for pair, amount in self.assignment.usage.items():
            quota, used = queue.quota(pair), queue.usage.get(pair, 0)
            if self.assignment.borrowing == 0:
                reserved[pair] = max(0, min(amount, sub(quota.nominal, used)))
            elif quota.borrowing_limit is None:
                reserved[pair] = amount
            else:
                reserved[pair] = min(amount, sub(add(quota.nominal, quota.borrowing_limit), used))
        return reserved


def propagate_requests(workload: Tree, info: Info) -> bool:
    """Write the total requests of the pod sets into the status; return whether they changed."""
    wanted: list[Tree] = []
    for pod_set in info.total_requests:
        shown: Tree = {"name": pod_set.name}
        if pod_set.requests:
            shown["resources"] = {
                name: quantity_text(name, amount) for name, amount in pod_set.requests.items()
            }
        wanted.append(shown)
    known = workload["status"].get("resourceRequests") or []
    if known == wanted:
        return False
    workload["status"]["resourceRequests"] = wanted
    return True
