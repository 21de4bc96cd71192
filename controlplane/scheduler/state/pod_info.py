"""A pod as the scheduler keeps it: the object plus what is computed from it once.

Upstream: `pkg/scheduler/framework/types.go` (PodInfo).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.resize_policy import as_promised
from controlplane.scheduler.state.pod_kinds import NEW, PodKind
from controlplane.scheduler.state.resources import PodResource, pod_resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from controlplane.api.pod import Pod
    from controlplane.api.pod_status import PodStatus
    from controlplane.scheduler.state.affinity_terms import PodTerms

_RESIZED = frozenset(("PodResizePending", "PodResizeInProgress"))


class PodInfo:
    """A pod with its parsed affinity terms and its resource totals.

    `update` with the same UID replaces the object only: terms and totals stay those of the object
    they were computed from, as upstream does. A different UID starts afresh.
    """

    __slots__ = ("_affine", "_resource", "_terms", "_terms_pod", "kind", "pod")

    def __init__(self, pod: Pod) -> None:
        self._start(pod)

    def _start(self, pod: Pod) -> None:
        self.pod = pod
        self._terms_pod = pod
        self._terms: PodTerms | None = None
        self._resource: PodResource | None = None
        self._affine: tuple[bool, bool] | None = None
        self.kind: PodKind = NEW
        """The parts of the object that selectors can see, once the pod has been counted."""

    @property
    def terms(self) -> PodTerms:
        """Affinity terms of the object this was created for."""
        if self._terms is None:
            from controlplane.scheduler.state.affinity_terms import parse_terms

            self._terms = parse_terms(self._terms_pod)
        return self._terms

    @property
    def resource(self) -> PodResource:
        """Requests, counted in the status-aware form used for pods on nodes."""
        if self._resource is None:
            self._resource = self.count(self.pod)
        return self._resource

    @staticmethod
    def count(pod: Pod) -> PodResource:
        """Return the resources that a pod counts for."""
        return pod_resource(pod)

    @property
    def has_affinity(self) -> bool:
        """Return whether the pod has any pod affinity or anti-affinity."""
        return self._affinities()[0]

    @property
    def has_required_anti_affinity(self) -> bool:
        """Return whether the pod has a required anti-affinity term."""
        return self._affinities()[1]

    def _affinities(self) -> tuple[bool, bool]:
        found = self._affine
        if found is None:
            found = self._affine = _affinities(self._terms_pod)
        return found

    def update(self, pod: Pod) -> None:
        """Take a newer object of the pod, or an object of another pod."""
        if pod.uid == self.pod.uid:
            self._take(pod)
            return
        self._start(pod)

    def _take(self, pod: Pod) -> None:
        """Hold a newer object; without affinity it has the same terms, and the older one need not stay in memory."""
        old, new = self.pod.metadata, pod.metadata
        if old.labels != new.labels or old.deletion_timestamp != new.deletion_timestamp:
            self.kind = NEW
        self.pod = pod
        if self._terms_pod.spec.affinity is None and pod.spec.affinity is None:
            self._terms_pod = pod

    def counts_as(self, pod: Pod, count: Callable[[Pod], PodResource]) -> bool:
        """Return whether a newer object of the pod has the same effect on every answer about its node.

        `count` tells what it counts for.

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
            and self.resource == count(pod)
        )

    def with_pod(self, pod: Pod) -> PodInfo:
        """A copy that holds `pod` and keeps what was computed (used to assume a pod)."""
        copy = PodInfo.__new__(PodInfo)
        copy.pod = self.pod
        copy._terms_pod = self._terms_pod
        copy._terms = self._terms
        copy._resource = self._resource
        copy._affine = self._affine
        copy.kind = self.kind
        copy._take(pod)
        return copy


def _says_nothing(status: PodStatus) -> bool:
    """Return whether a status has no effect on counts, besides what containers have."""
    return not (
        status.allocated_resources
        or status.resources is not None
        or status.resize
        or status.resource_claim_statuses
        or status.extended_resource_claim_status is not None
        or status.node_allocatable_resource_claim_statuses
    ) and not any(condition.type in _RESIZED for condition in status.conditions)


_NEITHER: Final = (False, False)


def _affinities(pod: Pod) -> tuple[bool, bool]:
    """Return whether a pod has any pod affinity or anti-affinity, and a required anti-affinity term."""
    affinity = pod.spec.affinity
    if affinity is None:
        return _NEITHER
    anti = affinity.pod_anti_affinity
    return (
        affinity.pod_affinity is not None or anti is not None,
        anti is not None and bool(anti.required_during_scheduling_ignored_during_execution),
    )


class PodInfoBefore129532(PodInfo):
    """A pod as it was counted before #129532: what its kubelet has allocated does not show."""

    __slots__ = ()

    @staticmethod
    def count(pod: Pod) -> PodResource:
        """Requests, of spec and what containers have."""
        return pod_resource(pod, allocated=False)


class PodInfoAsPromised(PodInfo):
    """A pod whose deferred resize does not count (proposed for #135107)."""

    __slots__ = ()

    @staticmethod
    def count(pod: Pod) -> PodResource:
        """Requests, of spec only where no resize is deferred."""
        return pod_resource(as_promised(pod))
