"""Plain counters of the queue (the series of upstream's metrics that its behaviour shows in)."""

from __future__ import annotations

import attrs


@attrs.define
class QueueMetrics:
    """Counters by label set; `pending_pods` is derived from the queue itself."""

    queue_incoming_pods: dict[tuple[str, str], int] = attrs.Factory(dict)
    """(queue, event label) -> pods that came in."""
    unschedulable_pods: dict[tuple[str, str], int] = attrs.Factory(dict)
    """(plugin, profile) -> pods the plugin holds back."""
    inflight_events: dict[str, int] = attrs.Factory(dict)
    """event label (or PodPopped) -> entries of the in-flight ledger."""

    def incoming(self, queue: str, event: str) -> None:
        """Count a pod entering a queue."""
        key = (queue, event)
        self.queue_incoming_pods[key] = self.queue_incoming_pods.get(key, 0) + 1

    def unschedulable(self, plugin: str, profile: str, delta: int) -> None:
        """Change the gauge of pods a plugin holds back."""
        key = (plugin, profile)
        self.unschedulable_pods[key] = self.unschedulable_pods.get(key, 0) + delta

    def inflight(self, label: str, delta: int) -> None:
        """Change the gauge of ledger entries with this label."""
        self.inflight_events[label] = self.inflight_events.get(label, 0) + delta
