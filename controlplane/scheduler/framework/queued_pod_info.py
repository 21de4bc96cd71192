"""A pod in the queue, with the history of its attempts.

Upstream: `pkg/scheduler/framework/types.go` (QueuedPodInfo).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.state.pod_info import PodInfo
from controlplane.sharing.replacing import replaced

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.framework.events import ClusterEvent


def pod_key(pod: Pod) -> str:
    """`namespace/name`: the key of the queues (not of the in-flight ledger, which uses the UID)."""
    metadata = pod.metadata
    return f"{metadata.namespace}/{metadata.name}"


@attrs.define(eq=False)
class QueuedPodInfo:
    """Queue entry. All times are nanoseconds; plugin sets are dicts used as ordered sets."""

    pod_info: PodInfo
    timestamp: int = 0
    """Time at which the pod last entered the queue after an attempt (or for the first time)."""
    attempts: int = 0
    initial_attempt_timestamp: int | None = None
    """Time at which the pod first passed PreEnqueue on its way to the active queue."""
    backoff_expiration: int | None = None
    """Cached end of backoff, aligned to the window; None when not computed."""
    unschedulable_count: int = 0
    consecutive_errors_count: int = 0
    unschedulable_plugins: dict[str, None] = attrs.Factory(dict)
    pending_plugins: dict[str, None] = attrs.Factory(dict)
    gating_plugin: str = ""
    gating_plugin_events: tuple[ClusterEvent, ...] = ()
    was_flushed_from_unschedulable: bool = False
    flushed_at: int = 0
    """Time at which the pod was last flushed from the pool, as far as that is kept (gate 139162)."""
    pod_signature: str | None = None

    @classmethod
    def for_pod(cls, pod: Pod, timestamp: int) -> QueuedPodInfo:
        """A fresh entry for `pod`."""
        return cls(PodInfo(pod), timestamp)

    @property
    def pod(self) -> Pod:
        """The object as last seen by the queue."""
        return self.pod_info.pod

    @property
    def uid(self) -> str:
        """UID of the object."""
        return self.pod_info.pod.uid

    @property
    def key(self) -> str:
        """`namespace/name` of the object."""
        return pod_key(self.pod_info.pod)

    @property
    def gated(self) -> bool:
        """Return whether a PreEnqueue plugin holds the pod back."""
        return self.gating_plugin != ""

    def rejector_plugins(self) -> Iterator[str]:
        """Names in either rejector set, each once."""
        yield from self.unschedulable_plugins
        for name in self.pending_plugins:
            if name not in self.unschedulable_plugins:
                yield name

    @property
    def has_rejectors(self) -> bool:
        """Return whether the last attempt named at least one rejecting plugin."""
        return bool(self.unschedulable_plugins or self.pending_plugins)

    def for_assume(self, pod: Pod) -> QueuedPodInfo:
        """A copy for `pod` (the same pod with its node filled in) to be assumed and bound."""
        return replaced(
            self,
            pod_info=self.pod_info.with_pod(pod),
            unschedulable_plugins=dict(self.unschedulable_plugins),
            pending_plugins=dict(self.pending_plugins),
        )
