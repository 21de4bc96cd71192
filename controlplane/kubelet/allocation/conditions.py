"""PodResizePending and PodResizeInProgress: the status manager's conditions of resizes, and their gauges.

Upstream: pkg/kubelet/status/status_manager.go. Memory only: after a restart the conditions of the API
object are loaded.
"""

from __future__ import annotations

from typing import Final

import attrs

from controlplane.api.pod_status import PodCondition
from controlplane.metrics.numbers import Metrics

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
ERROR: Final = "Error"
PREEMPTION_DISABLED: Final = "PodResizePreemptionDisabled"
DISABLED_BY_NODE: Final = "PreemptionDisabledByNodePolicy"


@attrs.frozen
class ResizeCondition:
    """One of the two, always true while it is there; times are in nanoseconds."""

    type: str
    reason: str
    message: str
    observed_generation: int
    transition_ns: int
    probe_ns: int


@attrs.define
class _OfPod:
    pending: ResizeCondition | None = None
    in_progress: ResizeCondition | None = None


class ResizeConditions:
    """The conditions by pod UID.

    The gauges change where upstream records them: `pod_pending_resizes` when a condition is added or removed,
    not when its reason changes. Upstream removes the series of a reason without pods; here it is 0.
    """

    def __init__(self, keeps_generation: bool = True, metrics: Metrics | None = None) -> None:
        """Gate 131157: unfixed, a condition that is set again takes the pod's current generation."""
        self._keeps_generation = keeps_generation
        self._metrics = metrics or Metrics()
        self._pods: dict[str, _OfPod] = {}

    def of(self, uid: str) -> tuple[ResizeCondition, ...]:
        """The conditions of a pod in the order of its status: pending, then in progress."""
        found = self._pods.get(uid)
        if found is None:
            return ()
        return tuple(each for each in (found.pending, found.in_progress) if each is not None)

    def pending(self, uid: str) -> ResizeCondition | None:
        """The pending condition of a pod."""
        found = self._pods.get(uid)
        return None if found is None else found.pending

    def in_progress(self, uid: str) -> ResizeCondition | None:
        """The in-progress condition of a pod."""
        found = self._pods.get(uid)
        return None if found is None else found.in_progress

    def set_pending(self, uid: str, reason: str, message: str, generation: int, now: int) -> bool:
        """Every raw reason but Infeasible is Deferred. Whether reason or generation are new."""
        shown = INFEASIBLE if reason == INFEASIBLE else DEFERRED
        pod = self._pods.setdefault(uid, _OfPod())
        before = pod.pending
        same = before is not None and before.reason == shown
        since = before.transition_ns if before is not None and same else now
        pod.pending = ResizeCondition(PENDING, shown, message, generation, since, now)
        if before is None:
            self._record_pending()
        return not same or before is None or before.observed_generation != generation

    def clear_pending(self, uid: str) -> None:
        """Remove the pending condition of a pod."""
        pod = self._pods.get(uid)
        if pod is not None and pod.pending is not None:
            pod.pending = None
            self._record_pending()

    def set_in_progress(
        self, uid: str, reason: str, message: str, generation: int, now: int
    ) -> bool:
        """The generation stays that of the first time; no reason never replaces a reason.

        Whether something other than the probe time changed.
        """
        pod = self._pods.setdefault(uid, _OfPod())
        before = pod.in_progress
        since = now
        if before is not None:
            if self._keeps_generation:
                generation = before.observed_generation
            if not reason and not message:
                reason, message = before.reason, before.message
            if before.reason == reason:
                since = before.transition_ns
        after = ResizeCondition(IN_PROGRESS, reason, message, generation, since, now)
        pod.in_progress = after
        if before is None:
            self._record_in_progress()
        return before is None or attrs.evolve(before, probe_ns=now) != after

    def clear_in_progress(self, uid: str) -> ResizeCondition | None:
        """The allocation is actuated; return the condition that was removed."""
        pod = self._pods.get(uid)
        if pod is None:
            return None
        before, pod.in_progress = pod.in_progress, None
        if before is not None:
            self._record_in_progress()
        return before

    def forget(self, uid: str) -> None:
        """Remove the conditions of a pod that is gone or finished."""
        if self._pods.pop(uid, None) is not None:
            self._record_pending()
            self._record_in_progress()

    def load(self, uid: str, conditions: tuple[PodCondition, ...]) -> None:
        """Take over the conditions of the API object, at the first sight of a pod after a restart."""
        for each in conditions:
            if each.type not in (PENDING, IN_PROGRESS):
                continue
            transition, probe = (
                0 if time is None else time
                for time in (each.last_transition_time, each.last_probe_time)
            )
            found = ResizeCondition(
                each.type, each.reason, each.message, each.observed_generation, transition, probe
            )
            pod = self._pods.setdefault(uid, _OfPod())
            if each.type == PENDING:
                pod.pending = found
            else:
                pod.in_progress = found
        if uid in self._pods:
            self._record_pending()
            self._record_in_progress()

    def _record_pending(self) -> None:
        counts = dict.fromkeys((DEFERRED, INFEASIBLE), 0)
        for pod in self._pods.values():
            if pod.pending is not None:
                reason = pod.pending.reason
                counts[reason] = counts.get(reason, 0) + 1
        for reason, count in counts.items():
            self._metrics.set("pod_pending_resizes", count, reason=reason.lower())

    def _record_in_progress(self) -> None:
        count = sum(pod.in_progress is not None for pod in self._pods.values())
        self._metrics.set("pod_in_progress_resizes", count)
