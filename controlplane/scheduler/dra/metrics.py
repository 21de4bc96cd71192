"""Metrics of dynamic resources in the scheduler. Upstream: pkg/scheduler/metrics/metrics.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.metrics.family import NANOSECONDS, Series
from controlplane.metrics.histogram import Histogram, exponential
from controlplane.scheduler.dra.tracker import allocation_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controlplane.api.tree import Tree
    from controlplane.metrics.family import Family

__all__ = ["ERROR", "FAILURE", "SUCCESS", "TIMEOUT", "DRAMetrics"]

SUCCESS: Final = "success"
FAILURE: Final = "failure"
TIMEOUT: Final = "timeout"
ERROR: Final = "error"

_LABELS: Final = ("profile", "driver", "status")
_ALLOCATIONS: Final = Series(
    "scheduler_dra_bindingconditions_allocations_total",
    "counter",
    "Allocated devices with binding conditions that a binding cycle waited for.",
    _LABELS,
)
_WAITS: Final = Series(
    "scheduler_dra_bindingconditions_wait_duration_seconds",
    "histogram",
    "Virtual time that binding cycles waited for binding conditions, once for each device of the pod's claims.",
    _LABELS,
    exponential(100_000_000, 2, 14),
    NANOSECONDS,
)
_CREATES: Final = Series(
    "scheduler_resourceclaim_creates_total",
    "counter",
    "Requests of the scheduler to create a claim for extended resources.",
    ("status",),
)


class DRAMetrics:
    """Counts for all profiles of one scheduler."""

    def __init__(self) -> None:
        self.allocations: dict[tuple[str, ...], int] = {}
        self.waits: dict[tuple[str, ...], Histogram] = {}
        self.creates: dict[tuple[str, ...], int] = {}

    def waited(self, profile: str, claims: Iterable[Tree], status: str, took: int) -> None:
        """A wait for binding conditions has ended.

        As upstream, every device of the claims observes the wait; only those with binding conditions are counted.
        """
        for claim in claims:
            devices = (allocation_of(claim) or {}).get("devices") or {}
            for result in devices.get("results") or ():
                key = (profile, result.get("driver", ""), status)
                found = self.waits.get(key)
                if found is None:
                    found = self.waits[key] = _WAITS.histogram()
                found.observe(took)
                if result.get("bindingConditions"):
                    self.allocations[key] = self.allocations.get(key, 0) + 1

    def created(self, status: str) -> None:
        """A claim for extended resources was created, or was not."""
        self.creates[status,] = self.creates.get((status,), 0) + 1

    def families(self) -> Iterator[Family]:
        """A snapshot of these numbers; a series of which nothing is known is left out."""
        if self.allocations:
            yield _ALLOCATIONS.family(self.allocations)
        if self.waits:
            yield _WAITS.family(self.waits)
        if self.creates:
            yield _CREATES.family(self.creates)
