"""A pod as the scheduler keeps it: the object plus what is computed from it once.

Upstream: `pkg/scheduler/framework/types.go` (PodInfo).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from controlplane.api.resize_policy import as_promised
from controlplane.scheduler.state.pod_kinds import NEW, PodKind
from controlplane.scheduler.state.resources import PodResource, pod_resource

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.pod_status import PodStatus
    from controlplane.scheduler.state.affinity_terms import PodTerms

_RESIZED = frozenset(("PodResizePending", "PodResizeInProgress"))


class PodInfo:
    """A pod with its parsed affinity terms and its resource totals.

    `update` with the same UID replaces the object only: terms and totals stay those of the object
    they were computed from, as upstream does. A different UID starts afresh.
    """

    kind: PodKind = NEW
    """What selectors can see of the object, once somebody has counted it."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self._terms_pod = pod

    @cached_property
    def terms(self) -> PodTerms:
        """Affinity terms of the object this was created for."""
        from controlplane.scheduler.state.affinity_terms import parse_terms

        return parse_terms(self._terms_pod)

    @cached_property
    def resource(self) -> PodResource:
        """Requests, counted in the status-aware form used for pods on nodes."""
        return pod_resource(self.pod)

    @cached_property
    def has_affinity(self) -> bool:
        """Whether the pod has any pod affinity or anti-affinity."""
        affinity = self._terms_pod.spec.affinity
        return affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        )

    @cached_property
    def has_required_anti_affinity(self) -> bool:
        """Whether the pod has a required anti-affinity term."""
        affinity = self._terms_pod.spec.affinity
        anti = None if affinity is None else affinity.pod_anti_affinity
        return anti is not None and bool(anti.required_during_scheduling_ignored_during_execution)

    def update(self, pod: Pod) -> None:
        """Take a newer object of the pod, or an object of another pod."""
        if pod.uid == self.pod.uid:
            self._take(pod)
            return
        self.__dict__.clear()
        self.pod = pod
        self._terms_pod = pod

    def _take(self, pod: Pod) -> None:
        """Hold a newer object; without affinity it has the same terms, and the older one need not stay in memory."""
        old, new = self.pod.metadata, pod.metadata
        if old.labels != new.labels or old.deletion_timestamp != new.deletion_timestamp:
            self.__dict__.pop("kind", None)
        self.pod = pod
        if self._terms_pod.spec.affinity is None and pod.spec.affinity is None:
            self._terms_pod = pod

    def counts_as(self, pod: Pod) -> bool:
        """Whether a newer object of the pod is to everybody who looks at nodes what this one is.

        True for what a binding brings, and for what a kubelet tells of a pod whose containers get what
        they ask for. A pod that is being resized, or has got claims, is always another one.
        """
        old, new = self.pod.metadata, pod.metadata
        return (
            old.uid == new.uid
            and old.deletion_timestamp == new.deletion_timestamp
            and old.labels == new.labels
            and old.annotations == new.annotations
            and (self.pod.spec is pod.spec or self.pod.spec == pod.spec)
            and _says_nothing(self.pod.status)
            and _says_nothing(pod.status)
            and self.resource == type(self)(pod).resource
        )

    def with_pod(self, pod: Pod) -> PodInfo:
        """A copy that holds `pod` and keeps what was computed (used to assume a pod)."""
        copy = PodInfo.__new__(PodInfo)
        copy.__dict__.update(self.__dict__)
        copy._take(pod)
        return copy


def _says_nothing(status: PodStatus) -> bool:
    """Whether a status says nothing that counts, besides what containers have."""
    return not (
        status.allocated_resources
        or status.resources is not None
        or status.resize
        or status.resource_claim_statuses
        or status.extended_resource_claim_status is not None
        or status.node_allocatable_resource_claim_statuses
    ) and not any(condition.type in _RESIZED for condition in status.conditions)


class PodInfoBefore129532(PodInfo):
    """A pod as it was counted before #129532: what its kubelet has allocated does not show."""

    @cached_property
    def resource(self) -> PodResource:
        """Requests, of spec and what containers have."""
        return pod_resource(self.pod, allocated=False)


class PodInfoAsPromised(PodInfo):
    """A pod whose deferred resize does not count (proposed for #135107)."""

    @cached_property
    def resource(self) -> PodResource:
        """Requests, of spec only where no resize is deferred."""
        return pod_resource(as_promised(self.pod))
