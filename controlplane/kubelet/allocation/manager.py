"""The allocation manager: the resources allocated to each pod on the node, and the resizes that wait for more.

Upstream: pkg/kubelet/allocation/allocation_manager.go. One mutex serialises all of it; the caller of the operations
holds it. Deciding whether a pod fits is left to the handlers of pod admission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from controlplane.api.go_sort import sort
from controlplane.api.pod import Pod
from controlplane.api.pod_resources import CPU, GUARANTEED, MEMORY, pod_qos, pod_requests
from controlplane.decisions import Point, Write
from controlplane.kubelet.allocation import events
from controlplane.kubelet.allocation.conditions import (
    DEFERRED,
    ResizeConditions,
)
from controlplane.kubelet.allocation.events import ResizeEvent
from controlplane.kubelet.allocation.state import (
    ALLOCATED,
    PodResources,
    PodResourceState,
    desired,
    restore,
    with_resources,
)
from controlplane.kubelet.cm.resource_manager import KubeletView
from controlplane.kubelet.effects import Steps

ADD: Final = "add"
RESIZE: Final = "resize"
INITIAL_RETRY_S: Final = 30
RETRY_S: Final = 180

POD_UPDATED: Final = "pod_updated"
PODS_ADDED: Final = "pods_added"
PODS_REMOVED: Final = "pods_removed"
POD_RESIZED: Final = "pod_resized"
POD_TERMINATED: Final = "pod_terminated"
PERIODIC_RETRY: Final = "periodic_retry"

ALLOCATED_POINT: Final = "kubelet.allocation.allocated"
"""The point between writing the allocation and telling of it in the conditions."""


class Verdict(Protocol):
    """The answer of the admission handlers; `admitted` False has a reason and a message."""

    @property
    def admitted(self) -> bool:
        """Return whether the pod fits."""

    @property
    def reason(self) -> str:
        """The reason for a rejection, in a word."""

    @property
    def message(self) -> str:
        """The reason for a rejection."""


Admit = Callable[[Pod, Sequence[Pod], str], Steps[Verdict]]
"""Asks the handlers about a pod beside the others, for `add` or `resize`."""


class _Rank(NamedTuple):
    """The inputs of a pod's place in the queue, besides the length of its wait."""

    pod: Pod
    allocated: Pod
    grows: bool
    """The pod requests more CPU or memory than is allocated to it."""
    priority: int
    guaranteed: bool


class AllocationManager:
    """Operations are generators: see `controlplane.decisions`."""

    def __init__(
        self,
        admit: Admit,
        conditions: ResizeConditions,
        view: KubeletView,
        *,
        pod_by_uid: Callable[[str], Pod | None],
        sync: Callable[[Pod], None],
        record: Callable[[ResizeEvent], None],
        now: Callable[[], int],
    ) -> None:
        """`sync` asks for a sync of a pod, `record` for an event; `now` is in nanoseconds."""
        self.state = PodResourceState()
        self.pending: list[str] = []
        self.conditions = conditions
        self.metrics = view.metrics
        self.features = view.features
        self._admit = admit
        self._pod_by_uid = pod_by_uid
        self._active_pods = view.active_pods
        self._sync = sync
        self._record = record
        self._now = now
        self._sources_ready = view.sources_ready
        # Answers that hold as long as pod and allocation are the same objects.
        self._allocated: dict[str, tuple[Pod, PodResources | None, Pod]] = {}
        self._ranks: dict[str, _Rank] = {}

    def start(self, text: str | None) -> None:
        """Begin with the checkpoint file, None when there is none. Raises CheckpointError."""
        if text is not None:
            self.state = restore(text, ALLOCATED)

    # -- allocations -------------------------------------------------------------------------

    def allocation(self, uid: str) -> PodResources | None:
        """Return the resources allocated to a pod."""
        return self.state.get(uid)

    def allocated_pod(self, pod: Pod) -> Pod:
        """The pod with its allocated resources in place of what it asks for."""
        return self._with_allocation(pod.uid, pod)

    def _with_allocation(self, uid: str, pod: Pod) -> Pod:
        resources = self.state.entries.get(uid)
        known = self._allocated.get(uid)
        if known is None or known[0] is not pod or known[1] is not resources:
            known = self._allocated[uid] = (pod, resources, with_resources(pod, resources))
        return known[2]

    def differs(self, pod: Pod) -> bool:
        """Return whether a pod asks for something else than its allocation."""
        return self.allocated_pod(pod) is not pod

    def allocate(self, pod: Pod) -> Steps[None]:
        """Promise a pod what it asks for: first in memory, then in the file."""
        self.state = self.state.with_pod(pod.uid, desired(pod, self.features))
        yield Write(ALLOCATED, self.state)

    def add_pod(self, pod: Pod) -> Steps[Verdict]:
        """Admit a pod, after a restart with its previous allocation. Upstream: AddPod."""
        allocated = self.allocated_pod(pod)
        verdict = yield from self._admit(allocated, self._others(pod), ADD)
        if verdict.admitted:
            yield from self.allocate(allocated)
        return verdict

    def remove_pod(self, uid: str) -> None:
        """Forget a pod. Only memory: the file catches up with the next write."""
        self.state = self.state.without(uid)
        self._allocated.pop(uid, None)
        self._ranks.pop(uid, None)

    def _others(self, pod: Pod) -> list[Pod]:
        own = pod.uid
        active = [(each.uid, each) for each in self._active_pods()]
        return [self._with_allocation(uid, each) for uid, each in active if uid != own]

    # -- the queue ---------------------------------------------------------------------------

    def push(self, uid: str) -> None:
        """Queue a pod whose resize waits; one that is queued already changes nothing, not even the order."""
        if uid in self.pending:
            return
        self.pending.append(uid)
        sort(self.pending, self._compare)

    def update(self, pod: Pod) -> Steps[bool]:
        """A pod's spec changed its resources: queue it, or nothing waits any more.

        Whether it was queued: pending resizes are to be retried then.
        """
        yield from ()
        if self.differs(pod):
            self.push(pod.uid)
            return True
        self.conditions.clear_pending(pod.uid)
        return False

    def _compare(self, one: str, other: str) -> int:
        """Upstream's order, which is none among resizes that do not grow: each goes before any other."""
        first, second = self._pod_by_uid(one), self._pod_by_uid(other)
        if first is None:
            return 1
        if second is None:
            return -1
        mine, theirs = self._rank(first), self._rank(second)
        if not mine.grows:
            return -1
        if not theirs.grows:
            return 1
        if mine.priority != theirs.priority:
            return theirs.priority - mine.priority
        if mine.guaranteed != theirs.guaranteed:
            return -1 if mine.guaranteed else 1
        waiting, longer = self.conditions.pending(one), self.conditions.pending(other)
        if waiting is None:
            return 1
        if longer is None:
            return -1
        return -1 if waiting.transition_ns < longer.transition_ns else 1

    def _rank(self, pod: Pod) -> _Rank:
        allocated = self.allocated_pod(pod)
        known = self._ranks.get(pod.uid)
        if known is None or known.pod is not pod or known.allocated is not allocated:
            wanted, has = pod_requests(pod), pod_requests(allocated)
            grows = any(
                name in wanted and (name not in has or wanted[name] > has[name])
                for name in (CPU, MEMORY)
            )
            guaranteed = pod_qos(pod) == GUARANTEED
            known = _Rank(pod, allocated, grows, pod.spec.priority or 0, guaranteed)
            self._ranks[pod.uid] = known
        return known

    # -- retrying ----------------------------------------------------------------------------

    def retry(self, trigger: str) -> Steps[int]:
        """Try all pending resizes once, in order. Returns the seconds until the next periodic try.

        A pod whose resize was allocated or found infeasible, and a pod that is gone, leave the queue.
        """
        if not self._sources_ready():
            return INITIAL_RETRY_S
        left: list[str] = []
        for uid in list(self.pending):
            pod = self._pod_by_uid(uid)
            if pod is None:
                continue
            before = self.conditions.of(uid)
            was = self.conditions.pending(uid)
            allocated = yield from self._resize(pod)
            now = self.conditions.pending(uid)
            if now is not None and now.reason == DEFERRED:
                left.append(uid)
            elif allocated and was is not None and was.reason == DEFERRED:
                self.metrics.add("pod_deferred_accepted_resizes_total", retry_trigger=trigger)
            if allocated or self.conditions.of(uid) != before:
                self._sync(pod)
        self.pending = left
        return RETRY_S

    def _resize(self, pod: Pod) -> Steps[bool]:
        """Return whether a pod's allocation equals what it asks for now."""
        if not self.differs(pod):
            self.conditions.clear_pending(pod.uid)
            return False
        generation = pod.metadata.generation or 0
        verdict = yield from self._admit(pod, self._others(pod), RESIZE)
        if verdict.admitted:
            yield from self.allocate(pod)
            yield Point(ALLOCATED_POINT)
            self.conditions.clear_pending(pod.uid)
            self.conditions.clear_in_progress(pod.uid)
            self.conditions.set_in_progress(pod.uid, "", "", generation, self._now())
            self._record(events.started(pod, generation, self.features))
            return True
        if verdict.reason and self.conditions.set_pending(
            pod.uid, verdict.reason, verdict.message, generation, self._now()
        ):
            self._record(
                events.pending(pod, verdict.reason, verdict.message, generation, self.features)
            )
        return False


def requested_changes(old: PodResources, new: PodResources) -> list[tuple[str, str, str]]:
    """(resource, requirement, operation) of each change, for `container_requested_resizes_total`."""
    from controlplane.api.quantity import parse

    found = []
    for name, wanted in new.containers.items():
        had: Any = old.containers.get(name) or {}
        for requirement in ("requests", "limits"):
            before, after = had.get(requirement) or {}, wanted.get(requirement) or {}
            for resource in (CPU, MEMORY):
                a, b = before.get(resource), after.get(resource)
                if a is None and b is None:
                    continue
                if a is None or b is None:
                    operation = "add" if a is None else "remove"
                elif parse(a) == parse(b):
                    continue
                else:
                    operation = "increase" if parse(b) > parse(a) else "decrease"
                found.append((resource, requirement, operation))
    return found
