"""The queue of one cluster queue: what is tried next, what waits for a change, what goes back where.

Each method is one region under the queue's lock upstream. Follows `pkg/cache/queue/cluster_queue.go`
and `inadmissible_workloads.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from controlplane.api.tree import Tree, metadata_of
from controlplane.gates import FixGates
from controlplane.kueue import names
from controlplane.kueue.cache.cluster_queue import selector_of
from controlplane.kueue.gates import Gates
from controlplane.kueue.queues.pending import PendingWorkloads
from controlplane.kueue.queues.reasons import (
    PENDING_EVALUATION,
    PREEMPTING,
    SAME_FOR_EQUIVALENT,
    TRIED_AGAIN_AT_ONCE,
    Requeue,
)
from controlplane.kueue.queues.usage import Ledger
from controlplane.kueue.workload.info import Info
from controlplane.kueue.workload.shape import UNKNOWN
from controlplane.kueue.workload.status import (
    find,
    has_closed_preemption_gate,
    queue_order_time,
    status_of,
)
from controlplane.kueue.workload.status_checks import requeue_at

BEST_EFFORT = "BestEffortFIFO"
STRICT = "StrictFIFO"


@dataclass(frozen=True)
class Preemptor:
    """The workload for which others are being preempted; a sticky one stays at the head."""

    key: str
    generation: int
    sticky: bool


@dataclass(frozen=True)
class UsageOrder:
    """The input of the order by past usage of local queues."""

    ledger: Ledger
    resource_weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rules:
    """Rules that all queues of a process share.

    `by_eviction`: a workload evicted by the PodsReady timeout is queued by the time of its eviction.
    `fixes`: the fixes of published races that are in force.
    """

    gates: Gates
    by_eviction: bool = True
    fixes: FixGates = field(default_factory=FixGates)


class ClusterQueue:
    """The queue of a ClusterQueue.

    Args:
        tree: The ClusterQueue.
        rules: Gates and the order of requeued workloads.
        by_usage: Set if local queues share by past usage; fixed when the queue is made.
        ledger: Past usage, if fair sharing of admission is configured at all.

    Raises:
        SelectorError: The namespace selector is not valid.
    """

    def __init__(
        self,
        tree: Tree,
        rules: Rules,
        by_usage: UsageOrder | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._rules = rules
        fixed = rules.fixes.fixed
        self._sees_flushes, self._waits_for_requeued = fixed("kq427"), fixed("kq2362")
        self._keeps_in_flight, self._knows_evaluated = fixed("kq9598"), fixed("kq9661")
        self._knows_shape, self._parks_backoffs = fixed("here7"), fixed("here12")
        self._at_once = TRIED_AGAIN_AT_ONCE
        if not fixed("kq7665"):
            self._at_once -= {Requeue.PREEMPTION_FAILED}
        self._by_usage = by_usage
        self._ledger = ledger
        self._orders: dict[str, tuple[Info, tuple[int, int, str]]] = {}
        self.workloads = PendingWorkloads(self._less)
        self.bulk_reasons: dict[str, str] = {}
        """Shapes whose workloads were all found inadmissible since the last flush, with the reason."""
        self.preemptor: Preemptor | None = None
        self.weights: dict[str, float] = {}
        """The local queues of this queue with their weights."""
        self.finished: dict[str, None] = {}
        self.left: dict[str, int] = {}
        """For the metrics: what is shown of a resource that nothing pending asks for any more."""
        self.served = False
        """For the metrics: a local queue has ever pointed here."""
        self.pop_cycle = 0
        self.flush_cycle = -1
        """The cycle in which inadmissible workloads were last tried again."""
        self.update(tree)

    def update(self, tree: Tree) -> None:
        """Take over the object. Workloads keep their places."""
        spec = tree.get("spec") or {}
        self.name = str(metadata_of(tree).get("name", ""))
        self.strategy = spec.get("queueingStrategy") or ""
        self.selector = selector_of(spec.get("namespaceSelector"))
        self.active = _is_active(tree)

    # -- order -------------------------------------------------------------------------------------

    def _base_order(self, info: Info) -> tuple[int, int, str]:
        """Priority, time in the queue and uid. Computed once for each version of a workload."""
        known = self._orders.get(info.key)
        if known is not None and known[0] is info:
            return known[1]
        time = queue_order_time(info.obj, self._rules.gates, by_eviction=self._rules.by_eviction)
        order = -info.priority, time, info.uid
        self._orders[info.key] = info, order
        return order

    def _less(self, a: Info, b: Info) -> bool:
        if self._by_usage is not None:
            one, other = self.usage_of(a), self.usage_of(b)
            if one != other:
                return one < other
        first, second = self._is_sticky(a), self._is_sticky(b)
        if first != second:
            return first
        return self._base_order(a) < self._base_order(b)

    def usage_of(self, info: Info) -> float:
        """The weighted past usage of a workload's local queue."""
        assert self._by_usage is not None
        local = local_queue_of(info.obj)
        return self._by_usage.ledger.usage(
            local, self.weights.get(local, 1.0), self._by_usage.resource_weights
        )

    def _is_sticky(self, info: Info) -> bool:
        return (
            self.preemptor is not None and self.preemptor.sticky and self.preemptor.key == info.key
        )

    def in_order(self) -> list[Info]:
        """All pending workloads, the inadmissible ones too, in queue order."""
        copy = PendingWorkloads(self._less)
        for info in self.workloads:
            copy.active.push(info)
        return copy.active.sorted()

    # -- local queues ------------------------------------------------------------------------------

    def add_local_queue(self, local_queue: str, weight: float) -> None:
        """A local queue belongs to this queue now."""
        self.weights[local_queue] = weight

    def set_weight(self, local_queue: str, weight: float) -> None:
        """Enter the weight of a local queue; a change reorders the heap."""
        if self.weights.get(local_queue) != weight:
            self.weights[local_queue] = weight
            self.workloads.active.rebuild()

    def forget_local_queue(self, local_queue: str) -> None:
        """The local queue belongs to this queue no longer."""
        self.weights.pop(local_queue, None)

    def reorder(self) -> None:
        """Restore the order after the usage of local queues changed."""
        self.workloads.active.rebuild()

    # -- transitions -------------------------------------------------------------------------------

    def push_or_update(self, info: Info, now: int) -> None:
        """Take over a new or changed workload. One in the scheduler's hands comes back by `requeue`.

        Gate kq9598 (kueue pull request 9598): before, an update of a workload in the scheduler's hands put it into
        the heap, and the scheduler then parked it as well.
        """
        pending, key = self.workloads, info.key
        if pending.is_inflight(key):
            if self._keeps_in_flight:
                return
            pending.forget_inflight(key)
        old = pending.inadmissible.get(key)
        if old is not None:
            if not self._may_become_admissible(old, info):
                pending.inadmissible[key] = info
                return
            del pending.inadmissible[key]
        if key not in pending.active and not (
            self._backoff_is_over(info, now) and not self._is_known_not_to_fit(info)
        ):
            pending.inadmissible[key] = info
            return
        pending.active.push(info)

    def _is_known_not_to_fit(self, info: Info) -> bool:
        return (
            self.strategy == BEST_EFFORT and info.hash != UNKNOWN and info.hash in self.bulk_reasons
        )

    def _may_become_admissible(self, old: Info, new: Info) -> bool:
        """Return whether a change matters to an inadmissible workload.

        Gate kq9661 (kueue pull request 9661): a change while the scheduler had the workload in its hands is in the
        parked version already, so that version and the one of the event agree. With the fix the generation that
        was popped is compared too.

        Gate kq2362 (kueue pull request 2362): before, the condition Requeued did not count, here and in the backoff:
        a workload was tried as soon as its time had come, and the admission wrote the condition back as it was.
        """
        gates = self._rules.gates
        before, after = old.obj, new.obj
        conditions = ("Evicted", "Requeued") if self._waits_for_requeued else ("Evicted",)
        return (
            (self._knows_evaluated and old.last_evaluated_generation not in (0, new.generation))
            or not _same(before.get("spec"), after.get("spec"))
            or (gates.enabled("PriorityBoost") and _boost(before) != _boost(after))
            or _part(before, "reclaimablePods") != _part(after, "reclaimablePods")
            or any(find(before, kind) != find(after, kind) for kind in conditions)
            or has_closed_preemption_gate(before) != has_closed_preemption_gate(after)
            or (gates.enabled("KueueDRAIntegration") and old.total_requests != new.total_requests)
        )

    def pop(self) -> Info | None:
        """Hand the first workload to the scheduler, None if there is none."""
        if self._ledger is not None and any(map(self._ledger.has_penalty, self.weights)):
            self.workloads.active.rebuild()
        self.pop_cycle += 1
        info = self.workloads.active.pop()
        if info is not None:
            info = replace(info, last_evaluated_generation=info.generation)
            self.left.update((name, 0) for each in info.total_requests for name in each.requests)
        self.workloads.inflight = info
        return info

    def is_preemptor(self, info: Info) -> bool:
        """Return whether others are being preempted for this very generation of the workload."""
        return (
            self.preemptor is not None
            and self.preemptor.key == info.key
            and self.preemptor.generation == info.generation
        )

    def requeue(
        self, info: Info, reason: Requeue, quota_reason: str, now: int, tried: str | None = None
    ) -> bool:
        """Take a workload back after a cycle.

        Gate here7 (proposed here; not reported): since kueue pull request 9698 the shape of a workload that does not
        fit is remembered, and workloads of that shape are parked untried. Upstream remembers the shape that the
        workload has now, not the one that was tried: raise a priority during the cycle, and the new one counts as
        failed too, so that the workload stays parked, pull request 9661 notwithstanding. The repair lets a
        workload whose shape has changed go back to the heap, and remembers nothing.

        Args:
            info: The workload with its newest object.
            reason: Why it was not admitted.
            quota_reason: The reason of its condition QuotaReserved, kept for equivalent workloads.
            now: The present time.
            tried: The shape of the workload that was tried; that of `info` unless given.

        Returns:
            False if it is pending already.
        """
        pending, key = self.workloads, info.key
        if reason in PREEMPTING:
            sticky = self.strategy == BEST_EFFORT
            self.preemptor = Preemptor(key, info.last_evaluated_generation, sticky)
        pending.forget_inflight(key)
        parked = pending.inadmissible.get(key)
        changed = self._knows_shape and tried not in (None, info.hash)
        if self._backoff_is_over(info, now) and (changed or self._goes_back_at_once(info, reason)):
            return pending.add_if_absent(info) if parked is None else pending.activate(parked)
        if parked is not None or key in pending.active:
            return False
        pending.inadmissible[key] = info
        if (
            self._rules.gates.enabled("SchedulingEquivalenceHashing")
            and info.hash != UNKNOWN
            and reason in SAME_FOR_EQUIVALENT
        ):
            self._park_equivalent(info.hash, quota_reason or PENDING_EVALUATION)
        return True

    def add_of_local_queue(self, info: Info, now: int) -> bool:
        """Take a workload that is there when its queue is added, as after a start; whether it is in the heap now.

        Gate here12 (proposed here; not reported): upstream such a workload goes to the heap even if its backoff is not
        over, or its condition Requeued is False. The repair parks it, as an update of it would.
        """
        if self._parks_backoffs and not self._backoff_is_over(info, now):
            if self.workloads.get(info.key) is None:
                self.workloads.inadmissible[info.key] = info
            return False
        return self.workloads.add_if_absent(info)

    def _backoff_is_over(self, info: Info, now: int) -> bool:
        if self._waits_for_requeued:
            return backoff_is_over(info.obj, now)
        until = requeue_at(info.obj)
        return until is None or now >= until

    def _goes_back_at_once(self, info: Info, reason: Requeue) -> bool:
        """Return whether a workload goes to the heap after a cycle.

        Gate kq427 (kueue pull request 427): a flush since the pop would have moved this workload too; before, it
        was parked behind the flush, and nothing tried it again.

        Gate kq7665 (kueue pull request 7665): before, a workload whose preemptions failed was parked like one that
        does not fit.
        """
        if self.strategy == STRICT:
            immediate = reason is not Requeue.NAMESPACE_MISMATCH
        else:
            immediate = reason in self._at_once
        return (
            immediate
            or (self._sees_flushes and self.flush_cycle >= self.pop_cycle)
            or (info.last_assignment is not None and info.last_assignment.pending())
        )

    def _park_equivalent(self, shape: str, reason: str) -> None:
        """Treat a failure to fit as valid for all workloads of the shape."""
        if self.strategy != BEST_EFFORT:
            return
        self.bulk_reasons[shape] = reason
        for info in [each for each in self.workloads.active if each.hash == shape]:
            self.workloads.park(info)

    def flush(self, namespace_labels: Callable[[str], Mapping[str, str] | None], now: int) -> int:
        """Try inadmissible workloads again whose namespace matches and whose backoff is over.

        Args:
            namespace_labels: The labels of a namespace, None if it does not exist.
            now: The present time.

        Returns:
            The number of workloads moved.
        """
        self.flush_cycle = self.pop_cycle
        self.bulk_reasons.clear()
        moved = 0
        for info in list(self.workloads.inadmissible.values()):
            labels = namespace_labels(info.namespace)
            if labels is None or not self.selector.matches(labels):
                continue
            if self._backoff_is_over(info, now) and self.workloads.activate(info):
                moved += 1
        return moved

    def delete(self, key: str) -> None:
        """Remove a workload, and the record of its preemptions."""
        self.workloads.remove(key)
        self._orders.pop(key, None)
        if self.preemptor is not None and self.preemptor.key == key:
            self.preemptor = None

    def no_fit_reason(self, key: str) -> str | None:
        """The reason with which a workload of the shape of this inadmissible one failed."""
        info = self.workloads.inadmissible.get(key)
        return None if info is None else self.bulk_reasons.get(info.hash)

    # -- numbers -----------------------------------------------------------------------------------

    def pending(self) -> tuple[int, int]:
        """The numbers of active (with the one in the scheduler's hands) and inadmissible workloads."""
        inflight = 0 if self.workloads.inflight is None else 1
        return len(self.workloads.active) + inflight, len(self.workloads.inadmissible)

    def pending_in(self, local_queue: str) -> tuple[int, int]:
        """The same numbers for one local queue."""
        mine = [each for each in self.workloads if local_queue_of(each.obj) == local_queue]
        parked = sum(each.key in self.workloads.inadmissible for each in mine)
        return len(mine) - parked, parked


def local_queue_of(workload: Tree) -> str:
    """The key of the local queue that a Workload names (namespace/name)."""
    spec = workload.get("spec") or {}
    return f"{metadata_of(workload).get('namespace', '')}/{spec.get('queueName') or ''}"


def backoff_is_over(workload: Tree, now: int) -> bool:
    """Return whether a Workload may be tried: it is not held back, and the time to requeue has come."""
    requeued = find(workload, "Requeued")
    if requeued is not None and requeued.get("status") == "False":
        return False
    until = requeue_at(workload)
    return until is None or now >= until


def _is_active(queue: Tree) -> bool:
    conditions = (queue.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Active" and each.get("status") == "True" for each in conditions)


def _boost(workload: Tree) -> str:
    return str((metadata_of(workload).get("annotations") or {}).get(names.PRIORITY_BOOST, ""))


def _same(one: object, other: object) -> bool:
    """Return whether two values agree; what is empty is as good as absent."""
    if isinstance(one, dict) and isinstance(other, dict):
        return all(_same(one.get(key), other.get(key)) for key in {**one, **other})
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if one in (None, {}, []):
        return other in (None, {}, [])
    return one == other


def _part(workload: Tree, name: str) -> object:
    return status_of(workload).get(name) or None
