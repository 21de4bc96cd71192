"""The metrics part of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.api.labels import Selector
from controlplane.kueue.gates import Gates

__all__ = ["MetricsOptions"]


@dataclass(frozen=True)
class MetricsOptions:
    """Choices of metrics.

    Args:
        resources: Show quotas and usage of cluster queues.
        local_queues: Show metrics of local queues.
        local_selector: Only of those with these labels; None for all.
    """

    resources: bool = False
    local_queues: bool = True
    local_selector: Selector | None = None

    def any_local(self, gates: Gates) -> bool:
        """Return whether any local queue has metrics."""
        return self.local_queues and gates.enabled("LocalQueueMetrics")

    def shows_local(self, labels: Mapping[str, str], gates: Gates) -> bool:
        """Return whether a local queue has metrics."""
        chosen = self.local_selector is None or self.local_selector.matches(labels)
        return chosen and self.any_local(gates)
