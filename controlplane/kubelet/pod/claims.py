"""Claims of one pod in the course of its life: prepared before its sandbox, unprepared after its containers.

Upstream: pkg/kubelet/kuberuntime/kuberuntime_manager.go (SyncPod), pkg/kubelet/kubelet.go (SyncTerminatingPod).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from controlplane.api.resource_claims import claim_entries, extended_claim_name
from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.kubelet.pod.actions import Action, Event, PrepareClaims, UnprepareClaims

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

__all__ = ["Claims", "PodClaims", "has_claims"]

RESYNC: Final = 60 * SECOND
"""The delay of the next sync after one that could not prepare: such a sync counts as a success upstream."""
BACK_OFF: Final = 10 * SECOND
"""The delay of the next sync after one that could not unprepare."""


LASTING_FAILURES: Final = 3
"""From this number of failures in a row on, further tries do not keep a run from settling."""


def has_claims(pod: Pod) -> bool:
    """Return whether a pod has claims."""
    return bool(claim_entries(pod.tree)) or extended_claim_name(pod.tree) is not None


class Claims(Protocol):
    """The manager of claims, as the worker of a pod uses it."""

    def devices_error(self, pod: Pod, container: str) -> str:
        """Return why a container cannot have the devices of its claims, "" if it can."""

    def resource_statuses(self, pod: Pod, container: str) -> Sequence[Tree]:
        """Return the devices of a container, as its status tells of them."""


class PodClaims:
    """The claims of one pod. `done` tells the outcome of the action that was asked for last."""

    __slots__ = ("_asked", "_error", "_failures", "_outcome", "_prepared", "again_at")

    def __init__(self, *, prepared: bool) -> None:
        self._prepared = prepared
        self._asked = False
        self._outcome = False
        self._error = ""
        self._failures = 0
        self.again_at: int | None = None
        """The time of the next try after a failure."""

    def done(self, error: str) -> None:
        """The action that was asked for is over; `error` "" if well."""
        if (
            self._asked
        ):  # else the pod ends meanwhile, and what was begun for its start is of no interest
            self._outcome = True
            self._error = error

    def _result(self) -> str | None:
        """Return the outcome once it is there."""
        if not self._outcome:
            return None
        self._asked = self._outcome = False
        self._failures = self._failures + 1 if self._error else 0
        return self._error

    @property
    def lasts(self) -> bool:
        """Return whether the next try would find what the last ones did, unless something changes elsewhere."""
        return self.again_at is not None and self._failures >= LASTING_FAILURES

    def promising(self) -> None:
        """Something changed: the next try is worth it."""
        self._failures = 0

    def prepare(self, pod: Pod, now: int, actions: list[Action]) -> bool | None:
        """Return True once the claims are prepared, False after a failure, None while that is under way."""
        if self._prepared:
            return True
        if not self._asked:
            self._asked = True
            self.again_at = None
            actions.append(PrepareClaims(pod))
            return None
        error = self._result()
        if error is None:
            return None
        if error:
            message = f"Failed to prepare dynamic resources: {error}"
            actions.append(Event("Warning", "FailedPrepareDynamicResources", message))
            self.again_at = now + RESYNC
            return False
        self._prepared = True
        return True

    def unprepare(self, pod: Pod, now: int, actions: list[Action]) -> bool:
        """Return True once nothing of the pod is prepared any more; after a failure it is tried again."""
        if self.again_at is not None and now < self.again_at:
            return False
        if not self._asked:
            self._asked = True
            actions.append(UnprepareClaims(pod))
            return False
        error = self._result()
        if error is None:
            return False
        self.again_at = now + BACK_OFF if error else None
        return not error

    def ends(self) -> None:
        """The pod is to end."""
        self._asked = self._outcome = False
        self._failures = 0
        self.again_at = None
