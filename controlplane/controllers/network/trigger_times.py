"""Trigger times: the change that a write of endpoints reports. Upstream: endpointslice/util/trigger_time_tracker.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.pod import Pod
    from controlplane.api.service import Service

ANNOTATION: Final = "endpoints.kubernetes.io/last-change-trigger-time"


class TriggerTimes:
    """State of each service and its pods at its last sync. Times are nanoseconds."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, dict[str, int]]] = {}

    def forget(self, key: str) -> None:
        """A service is gone."""
        self._known.pop(key, None)

    def next(self, service: Service, pods: Sequence[Pod]) -> int | None:
        """The earliest change since the last sync; None if there was none.

        That of a service seen for the first time is its creation.
        """
        known = self._known.get(service.key)
        created = service.metadata.creation_timestamp
        of_service = created or 0
        of_pods: dict[str, int] = {}
        changes: list[int] = []
        before, pods_before = known or (0, {})
        for pod in pods:
            ready = next((each for each in pod.status.conditions if each.type == "Ready"), None)
            if ready is not None and ready.last_transition_time:
                of_pods[pod.name] = ready.last_transition_time
                if ready.last_transition_time > pods_before.get(pod.name, 0):
                    changes.append(ready.last_transition_time)
        if of_service > before:
            changes.append(of_service)
        self._known[service.key] = of_service, of_pods
        if known is None:
            return created
        return min(changes, default=None)
