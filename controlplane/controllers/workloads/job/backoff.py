"""The back-off of the replacement of a failed pod. Upstream: job/backoff_utils.go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from controlplane.api.times import SECOND
from controlplane.controllers.common.pods import condition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.pod import Pod
    from controlplane.api.pod_status import ContainerStatus

FIRST_NS = 10 * SECOND
LONGEST_NS = 600 * SECOND


@frozen
class BackoffRecord:
    """Failures in a row since the last success, and when the last one was."""

    failures: int = 0
    last_failure: int | None = None

    def after(self, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> BackoffRecord:
        """The record once these pods, not seen before, have finished."""
        if not succeeded and not failed:
            return self
        failures = sorted(finished_at(pod) for pod in failed)
        if not succeeded:
            return BackoffRecord(self.failures + len(failures), failures[-1])
        success = max(finished_at(pod) for pod in succeeded)
        since = [at for at in failures if at > success]
        return BackoffRecord(len(since), since[-1] if since else None)

    def remaining(self, now: int) -> int:
        """Nanoseconds until the next pod may be created."""
        return remaining(self.failures, self.last_failure, now)


def remaining(failures: int, last_failure: int | None, now: int) -> int:
    """Return the wait in nanoseconds after a number of failures in a row: 10 s, doubled with each, at most 10
    minutes.
    """
    if failures == 0 or last_failure is None:
        return 0
    wait = min(FIRST_NS << min(failures - 1, 62), LONGEST_NS)
    return max(0, wait - (now - last_failure))


def finished_at(pod: Pod) -> int:
    """Return the time at which a pod finished: its last container, else the end of readiness, else its deletion, else
    its creation.

    A sidecar that has not ended leaves the containers' end open; other init containers do not count.
    """
    ended = _containers_end(pod)
    if ended is not None:
        return ended
    ready = condition(pod, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time:
        return ready.last_transition_time
    metadata = pod.metadata
    if metadata.deletion_timestamp is not None:
        grace = metadata.deletion_grace_period_seconds or 0
        return metadata.deletion_timestamp - grace * SECOND
    return metadata.creation_timestamp or 0


def _containers_end(pod: Pod) -> int | None:
    status = pod.status
    sidecars = {each.name for each in pod.spec.init_containers if each.restart_policy == "Always"}
    regular = _last_end(status.container_statuses)
    statuses = [each for each in status.init_container_statuses if each.name in sidecars]
    if not statuses:
        return regular
    last = _last_end(statuses)
    return None if last is None else max(last, regular or 0)


def _last_end(statuses: Sequence[ContainerStatus]) -> int | None:
    """Return the last end of these; None while one has not ended, or its end is unknown."""
    last = 0
    for status in statuses:
        ended = status.state.terminated
        if ended is None or not ended.finished_at:
            return None
        last = max(last, ended.finished_at)
    return last or None
