"""Metrics of the device taint eviction controller. Upstream: pkg/controller/devicetainteviction/metrics/metrics.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.times import MILLISECOND
from controlplane.metrics.family import NANOSECONDS, Series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controlplane.metrics.family import Family

__all__ = ["EvictionMetrics"]

_BOUNDS_MS: Final = (
    5, 25, 100, 500, 1_000, 2_500, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000,
)  # fmt: skip
_DELETIONS: Final = Series(
    "device_taint_eviction_controller_pod_deletions_total",
    "counter",
    "Pods that this controller has deleted.",
)
_DURATION: Final = Series(
    "device_taint_eviction_controller_pod_deletion_duration_seconds",
    "histogram",
    "Virtual time from the moment when a taint of a device takes effect to the deletion of the pod.",
    (),
    tuple(each * MILLISECOND for each in _BOUNDS_MS),
    NANOSECONDS,
)


class EvictionMetrics:
    """The time (nanoseconds) that each deletion took."""

    def __init__(self) -> None:
        self._durations = _DURATION.histogram()

    def deleted(self, took: int) -> None:
        """Count a pod that was deleted `took` nanoseconds after its taint had taken effect."""
        self._durations.observe(took)

    def families(self) -> Iterator[Family]:
        """Return a snapshot."""
        yield _DELETIONS.single(self._durations.count)
        yield _DURATION.single(self._durations)
