"""All queues of a Kueue process: which workload waits where, and who asks for another try.

Each public method is one region under the manager's lock upstream. Nothing here waits: what upstream
does with a condition variable, a delaying queue and timers goes to the `Surroundings`. Follows
`pkg/cache/queue/manager.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from controlplane.api.tree import Tree, metadata_of
from controlplane.kueue.cache.hierarchy import Hierarchy
from controlplane.kueue.cache.quota import QueueNode
from controlplane.kueue.queues.cluster_queue import (
    ClusterQueue,
    Rules,
    UsageOrder,
    local_queue_of,
)
from controlplane.kueue.queues.local_queue import LocalQueue
from controlplane.kueue.queues.reasons import Requeue
from controlplane.kueue.queues.second_pass import SecondPass, delay
from controlplane.kueue.queues.usage import FairSharing, Ledger, local_queue_weight, weights_for
from controlplane.kueue.workload.adjust import adjusted
from controlplane.kueue.workload.info import Info, new_info, updated
from controlplane.kueue.workload.requests import NO_OPTIONS, RequestOptions
from controlplane.kueue.workload.status import (
    has_quota_reservation,
    is_admissible,
    is_finished,
    key_of,
    needs_second_pass,
)

INADMISSIBLE: Final = "workload is inadmissible and can't be added to a LocalQueue"
NO_LOCAL_QUEUE: Final = "localQueue doesn't exist or inactive"
NO_CLUSTER_QUEUE: Final = "clusterQueue doesn't exist"
CLUSTER_QUEUE_EXISTS: Final = "clusterQueue already exists"


class QueueError(ValueError):
    """An operation that the manager refuses; the message is upstream's."""


class FlushRequest(NamedTuple):
    """Inadmissible workloads to try again: of a cluster queue without cohort, or of a root cohort's tree."""

    cluster_queue: str = ""
    cohort: str = ""


@dataclass(frozen=True)
class Head:
    """A workload for the scheduler; `preemptor` if others are being preempted for it."""

    info: Info
    preemptor: bool = False


class Reader(Protocol):
    """The informer caches of the process."""

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        """The object, None when it does not exist."""

    def list(self, kind: str, namespace: str = "") -> Sequence[Tree]:
        """The objects of a kind, of one namespace or of all, by name."""


class Surroundings(Protocol):
    """The process around the manager, as it calls it. None of it may call back at once."""

    def wake(self) -> None:
        """Wake the scheduler if it waits for heads."""

    def flush_later(self, request: FlushRequest) -> None:
        """Call `flush` with the request after the batching period; equal requests are one."""

    def second_pass_later(self, after: int, workload: Tree, iteration: int) -> None:
        """Call `second_pass_due` after that many nanoseconds."""

    def evicted_or_gone(self, key: str, uid: str) -> None:
        """A pending workload was seen: its preemption, if one was expected, has happened."""


@dataclass(frozen=True)
class ManagerOptions:
    """Configuration of the manager.

    Args:
        rules: Gates and the order of requeued workloads.
        requests: Excluded and transformed resources.
        fair_sharing: Admission fair sharing, None if it is off.
    """

    rules: Rules
    requests: RequestOptions = NO_OPTIONS
    fair_sharing: FairSharing | None = None


class QueueManager:
    """The queue manager.

    Args:
        options: Configuration.
        reader: Informer caches, for objects that it does not keep.
        surroundings: The process around it.
        clock: The present time, nanoseconds.
        is_active: Whether the cache finds a cluster queue fit to admit; None means all are.
    """

    def __init__(
        self,
        options: ManagerOptions,
        reader: Reader,
        surroundings: Surroundings,
        clock: Callable[[], int],
        is_active: Callable[[str], bool] | None = None,
    ) -> None:
        self._options = options
        self._gates = options.rules.gates
        self._reader = reader
        self._surroundings = surroundings
        self._clock = clock
        self._is_active = is_active
        enabled = self._gates.enabled("AdmissionFairSharing")
        self._fair_sharing = options.fair_sharing if enabled else None
        self._tree: Hierarchy[QueueNode] = Hierarchy()
        self._queues: dict[str, ClusterQueue] = {}
        self._local: dict[str, LocalQueue] = {}
        self._assigned: dict[str, str] = {}
        """Local queues by workload, for as long as the workload exists."""
        self._finished: dict[str, str] = {}
        self._second_pass = SecondPass()
        self.ledger = Ledger()

    # -- cohorts -----------------------------------------------------------------------------------

    def add_or_update_cohort(self, cohort: Tree) -> None:
        """Take a Cohort, and ask for a flush of its tree."""
        node = self._tree.add_cohort(str(metadata_of(cohort).get("name", "")))
        self._tree.set_cohort_parent(node, (cohort.get("spec") or {}).get("parentName") or "")
        if not node.has_cycle():
            self._surroundings.flush_later(FlushRequest(cohort=node.root().name))

    def delete_cohort(self, name: str) -> None:
        """Forget a Cohort."""
        self._tree.delete_cohort(name)

    # -- cluster queues ----------------------------------------------------------------------------

    def add_cluster_queue(self, queue: Tree) -> None:
        """Take a new ClusterQueue with the workloads of its local queues.

        Raises:
            QueueError: It is known already.
        """
        name = str(metadata_of(queue).get("name", ""))
        if name in self._queues:
            raise QueueError(CLUSTER_QUEUE_EXISTS)
        spec = queue.get("spec") or {}
        weights = weights_for(spec.get("admissionScope"), self._fair_sharing)
        ledger = None if self._fair_sharing is None else self.ledger
        by_usage = None if weights is None else UsageOrder(self.ledger, weights)
        made = ClusterQueue(queue, self._options.rules, by_usage, ledger)
        self._queues[name] = made
        node = self._tree.queues[name] = QueueNode(name)
        self._tree.set_queue_parent(node, spec.get("cohortName") or "")
        added = False
        for each in self._reader.list("LocalQueue"):
            if (each.get("spec") or {}).get("clusterQueue") != name:
                continue
            local = self._local.get(key_of(each))
            if local is not None:
                made.add_local_queue(local.key, local_queue_weight(each))
                added = self._push_all(made, local) or added
        self.notify([name])
        if added:
            self._surroundings.wake()

    def update_cluster_queue(self, queue: Tree, spec_changed: bool) -> None:
        """Take a changed ClusterQueue; a change of its specification asks for a flush.

        Raises:
            QueueError: It is not known.
        """
        name = str(metadata_of(queue).get("name", ""))
        known = self._queues.get(name)
        if known is None:
            raise QueueError(NO_CLUSTER_QUEUE)
        was_active = known.active
        known.update(queue)
        parent = (queue.get("spec") or {}).get("cohortName") or ""
        self._tree.set_queue_parent(self._tree.queues[name], parent)
        if spec_changed:
            self.notify([name])
        if known.active and not was_active:
            self._surroundings.wake()

    def delete_cluster_queue(self, queue: Tree) -> None:
        """Forget a ClusterQueue."""
        name = str(metadata_of(queue).get("name", ""))
        if self._queues.pop(name, None) is not None:
            self._tree.delete_queue(name)

    def reorder(self, name: str) -> None:
        """Restore the order of a queue after the usage of one of its local queues changed."""
        queue = self._queues.get(name)
        if queue is not None:
            queue.reorder()

    # -- local queues ------------------------------------------------------------------------------

    def add_local_queue(self, queue: Tree) -> None:
        """Take a new LocalQueue with its workloads.

        Raises:
            QueueError: It is known already.
        """
        key = key_of(queue)
        if key in self._local:
            raise QueueError(f'queue "{metadata_of(queue).get("name", "")}" already exists')
        local = LocalQueue(key, (queue.get("spec") or {}).get("clusterQueue") or "")
        self._local[key] = local
        cluster_queue = self._queues.get(local.cluster_queue)
        if cluster_queue is not None:
            cluster_queue.add_local_queue(key, local_queue_weight(queue))
        for each in self._reader.list("Workload", str(metadata_of(queue).get("namespace", ""))):
            if local_queue_of(each) == key:
                self._adopt(each, local)
        if cluster_queue is not None and self._push_all(cluster_queue, local):
            self._surroundings.wake()

    def _adopt(self, workload: Tree, local: LocalQueue) -> None:
        """Enter a workload that was there before its local queue."""
        self._assigned[key_of(workload)] = local.key
        if is_finished(workload):
            self._count_finished(workload)
        if is_admissible(workload, self._gates):
            info = new_info(self._adjusted(workload), self._gates, self._options.requests)
            local.items[info.key] = info

    def update_local_queue(self, queue: Tree) -> None:
        """Take a changed LocalQueue.

        Raises:
            QueueError: It is not known.
        """
        key = key_of(queue)
        local = self._local.get(key)
        if local is None:
            raise QueueError(NO_LOCAL_QUEUE)
        target = (queue.get("spec") or {}).get("clusterQueue") or ""
        weight = local_queue_weight(queue)
        new = self._queues.get(target)
        if local.cluster_queue != target:
            old = self._queues.get(local.cluster_queue)
            if old is not None:
                self._withdraw(old, local)
            if new is not None:
                new.add_local_queue(key, weight)
                self._push_all(new, local)
                self._surroundings.wake()
        local.cluster_queue = target
        if new is not None:
            new.set_weight(key, weight)

    def delete_local_queue(self, queue: Tree) -> None:
        """Forget a LocalQueue and its workloads."""
        local = self._local.pop(key_of(queue), None)
        if local is None:
            return
        cluster_queue = self._queues.get(local.cluster_queue)
        if cluster_queue is not None:
            self._withdraw(cluster_queue, local)

    def _push_all(self, queue: ClusterQueue, local: LocalQueue) -> bool:
        """Put all workloads of a local queue into the heap; whether any was added."""
        now = self._clock()
        added = [queue.add_of_local_queue(info, now) for info in local.items.values()]
        queue.finished.update(local.finished)
        queue.served = True
        return any(added)

    def _withdraw(self, queue: ClusterQueue, local: LocalQueue) -> None:
        before = queue.workloads.requested()
        for key in local.items:
            queue.delete(key)
        after = queue.workloads.requested()
        queue.left |= {name: amount for name, amount in before.items() if not after.get(name)}
        for key in local.finished:
            queue.finished.pop(key, None)
        queue.forget_local_queue(local.key)

    # -- workloads ---------------------------------------------------------------------------------

    def add_or_update(self, workload: Tree) -> str | None:
        """Queue a pending Workload, whose requests are adjusted; the text of an error, None on success."""
        if not is_admissible(workload, self._gates):
            return INADMISSIBLE
        key, local_key = key_of(workload), local_queue_of(workload)
        if self._assigned.get(key, local_key) != local_key:
            self.forget(key)
        local = self._local.get(local_key)
        if local is None:
            return NO_LOCAL_QUEUE
        info = new_info(workload, self._gates, self._options.requests)
        queue = self._queues.get(local.cluster_queue)
        if queue is not None and self._gates.enabled("FlavorFungibilityPreserveScanProgress"):
            info = _with_progress(info, queue.workloads.get(key))
        self._assign(info, local)
        if queue is None:
            return NO_CLUSTER_QUEUE
        queue.push_or_update(info, self._clock())
        self._surroundings.evicted_or_gone(key, info.uid)
        self._surroundings.wake()
        return None

    add_or_update_locked = add_or_update
    """The same from an action of `release`."""

    def requeue(self, info: Info, reason: Requeue, quota_reason: str = "") -> bool:
        """Take a workload back after a scheduling cycle, in its newest version.

        Gate kq11014 (kueue pull request 11014): before, only one that holds quota was kept out; a workload that was
        finished or deactivated meanwhile went back.

        Args:
            info: The workload as the scheduler had it.
            reason: Why it was not admitted.
            quota_reason: The reason of its condition QuotaReserved, which is not written yet.

        Returns:
            False if it is gone, not to be queued any more, or pending already.
        """
        workload = self._reader.get("Workload", info.namespace, info.name)
        if workload is None or not self._may_come_back(workload):
            return False
        local = self._local.get(local_queue_of(workload))
        if local is None:
            return False
        tried = info.hash
        info = updated(info, self._adjusted(workload), self._gates, self._options.requests)
        self._assign(info, local)
        queue = self._queues.get(local.cluster_queue)
        if queue is None:
            return False
        added = queue.requeue(info, reason, quota_reason, self._clock(), tried)
        if added:
            self._surroundings.wake()
        return added

    def _may_come_back(self, workload: Tree) -> bool:
        if self._options.rules.fixes.fixed("kq11014"):
            return is_admissible(workload, self._gates)
        return not has_quota_reservation(workload)

    def delete(self, key: str) -> None:
        """Take a workload out of its queue."""
        local = self._local.get(self._assigned.get(key, ""))
        if local is None:
            return
        local.items.pop(key, None)
        queue = self._queues.get(local.cluster_queue)
        if queue is not None:
            queue.delete(key)
        self._second_pass.delete(key)

    def forget(self, key: str) -> None:
        """Take a workload out of its queue and forget to which queue it belonged."""
        self.delete(key)
        self._assigned.pop(key, None)
        local = self._local.get(self._finished.pop(key, ""))
        if local is not None:
            local.finished.pop(key, None)
            queue = self._queues.get(local.cluster_queue)
            if queue is not None:
                queue.finished.pop(key, None)

    def add_finished(self, workload: Tree) -> None:
        """Count a finished Workload."""
        if is_finished(workload):
            self._count_finished(workload)

    def _count_finished(self, workload: Tree) -> None:
        key, local_key = key_of(workload), local_queue_of(workload)
        self._finished[key] = local_key
        local = self._local.get(local_key)
        if local is not None:
            local.finished[key] = None
            local.counted = True
            queue = self._queues.get(local.cluster_queue)
            if queue is not None:
                queue.finished[key] = None

    def _assign(self, info: Info, local: LocalQueue) -> None:
        self._assigned[info.key] = local.key
        local.items[info.key] = info

    def _adjusted(self, workload: Tree) -> Tree:
        namespace = str(metadata_of(workload).get("namespace", ""))
        classes = {
            str(metadata_of(each).get("name", "")): each
            for each in self._reader.list("RuntimeClass")
        }
        return adjusted(workload, self._reader.list("LimitRange", namespace), classes)

    # -- heads -------------------------------------------------------------------------------------

    def heads(self) -> list[Head]:
        """Take what is ready for a second pass, and the first workload of each active queue.

        The queues go by name; upstream visits them, and what is ready, in the order of its maps, which the
        scheduler lets the run choose.
        """
        found = [Head(info) for info in self._second_pass.take_ready()]
        for name in sorted(self._queues):
            if self._is_active is not None and not self._is_active(name):
                continue
            queue = self._queues[name]
            info = queue.pop()
            if info is None:
                continue
            found.append(Head(replace(info, cluster_queue=name), queue.is_preemptor(info)))
            local = self._local.get(self._assigned.get(info.key, ""))
            if local is not None:
                local.items.pop(info.key, None)
        return found

    def waiting(self) -> tuple[object, ...]:
        """The next heads, as far as a cycle's outcome depends on them, ready for comparison."""
        found: list[object] = [each.key for each in self._second_pass.ready()]
        for name in sorted(self._queues):
            head = self._queues[name].workloads.active.peek()
            if head is not None and (self._is_active is None or self._is_active(name)):
                last = head.last_assignment
                tried = () if last is None else tuple(str(dict(each)) for each in last.tried)
                found.append((head.key, head.generation, tried))
        return tuple(found)

    # -- inadmissible workloads --------------------------------------------------------------------

    def notify(self, names: Iterable[str]) -> None:
        """Ask for a flush of the trees of these cluster queues. A tree with a cycle is passed over."""
        for name in names:
            node = self._tree.queues.get(name)
            if node is None:
                continue
            if node.parent is None:
                self._surroundings.flush_later(FlushRequest(cluster_queue=name))
            elif not node.parent.has_cycle():
                self._surroundings.flush_later(FlushRequest(cohort=node.parent.root().name))

    def release(self, key: str, action: Callable[[], None] | None = None) -> None:
        """Run an action, then ask for a flush of the workload's tree, both in one step.

        Between the two no workload may be parked: it would miss the flush.
        """
        if action is not None:
            action()
        local = self._local.get(self._assigned.get(key, ""))
        if local is not None and local.cluster_queue in self._queues:
            self.notify([local.cluster_queue])

    def flush(self, request: FlushRequest) -> int:
        """Try inadmissible workloads again; how many were moved to their heaps."""
        moved = sum(
            self._queues[name].flush(self._namespace_labels, self._clock())
            for name in self._flushed_queues(request)
        )
        if moved:
            self._surroundings.wake()
        return moved

    def _flushed_queues(self, request: FlushRequest) -> list[str]:
        if request.cluster_queue:
            return [request.cluster_queue] if request.cluster_queue in self._queues else []
        cohort = self._tree.cohorts.get(request.cohort)
        if cohort is None or cohort.has_cycle():
            return []
        return [node.name for node in cohort.queues_below()]

    def _namespace_labels(self, name: str) -> Mapping[str, str] | None:
        found = self._reader.get("Namespace", "", name)
        return None if found is None else metadata_of(found).get("labels") or {}

    # -- second pass -------------------------------------------------------------------------------

    def queue_second_pass(self, workload: Tree, iteration: int) -> bool:
        """Let a Workload wait for another pass if it needs one; whether it waits from now on."""
        if needs_second_pass(workload):
            if not self._second_pass.wait(workload):
                return False
            self._surroundings.second_pass_later(delay(iteration + 1), workload, iteration + 1)
            return True
        if iteration > 0:
            # Before the first attempt the wait stays: an event must not cancel it.
            self._second_pass.delete(key_of(workload))
        return False

    def second_pass_due(self, workload: Tree, iteration: int) -> None:
        """The wait of a Workload is over."""
        info = new_info(workload, self._gates, self._options.requests)
        if self._second_pass.make_ready(replace(info, second_pass_iteration=iteration)):
            self._surroundings.wake()

    def delete_second_pass(self, key: str) -> None:
        """Drop a Workload from the second pass."""
        self._second_pass.delete(key)

    # -- questions ---------------------------------------------------------------------------------

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        """A queue by name."""
        return self._queues.get(name)

    def cluster_queues(self) -> list[str]:
        """The names of all queues, sorted."""
        return sorted(self._queues)

    def cluster_queue_for(self, workload: Tree) -> tuple[str, bool]:
        """Name of the cluster queue behind the Workload's local queue, and whether it exists."""
        local = self._local.get(local_queue_of(workload))
        if local is None:
            return "", False
        return local.cluster_queue, local.cluster_queue in self._queues

    def has_local_queue(self, key: str) -> bool:
        """Return whether a local queue is known."""
        return key in self._local

    def local_queue(self, key: str) -> LocalQueue | None:
        """A local queue by key (namespace/name)."""
        return self._local.get(key)

    def no_fit_reason(self, workload: Tree) -> str | None:
        """The reason with which an equivalent workload failed lately, None if none did."""
        name, known = self.cluster_queue_for(workload)
        return self._queues[name].no_fit_reason(key_of(workload)) if known else None

    def pending(self, name: str) -> int | None:
        """Number of pending workloads of a cluster queue, None if it is unknown."""
        queue = self._queues.get(name)
        return None if queue is None else sum(queue.pending())

    def pending_workloads(self, key: str) -> int | None:
        """Number of pending workloads of a local queue (namespace/name), None if it is unknown."""
        local = self._local.get(key)
        return None if local is None else len(local.items)


def _with_progress(info: Info, known: Info | None) -> Info:
    """Keep how far the search for flavors came, as long as the workload has the same shape."""
    if known is None or known.last_assignment is None:
        return info
    if not known.last_assignment.matches(info.hash):
        return info
    return replace(info, last_assignment=known.last_assignment)
