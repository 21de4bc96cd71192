"""The metrics of the autoscaler that do not measure its own time. Upstream: `metrics/metrics.go`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from controlplane.autoscaler.loop import Autoscaler, Loop
from controlplane.autoscaler.removal import Unremovable
from controlplane.metrics.family import Family, Kind, Series

_NO_GPU: Final = ("", "", "")
_GPU: Final = ("gpu_resource_name", "gpu_name", "dra_drivers")


def _series(kind: Kind, name: str, text: str, *labels: str) -> Series:
    return Series(f"cluster_autoscaler_{name}", kind, text, labels)


SAFE: Final = _series("gauge", "cluster_safe_to_autoscale", "Cluster is healthy enough.")
NODES: Final = _series("gauge", "nodes_count", "Nodes by state.", "state")
GROUPS: Final = _series("gauge", "node_groups_count", "Node groups.", "node_group_type")
UNSCHEDULABLE: Final = _series(
    "gauge", "unschedulable_pods_count", "Pods that cannot be scheduled.", "type"
)
MOST: Final = _series("gauge", "max_nodes_count", "Most nodes that all groups may have.")
UNNEEDED: Final = _series("gauge", "unneeded_nodes_count", "Nodes that are not needed.")
UNREMOVABLE: Final = _series(
    "gauge", "unremovable_nodes_count", "Nodes that cannot be removed.", "reason"
)
SCALED_UP: Final = _series("counter", "scaled_up_nodes_total", "Nodes that were added.", *_GPU)
FAILED_UP: Final = _series(
    "counter", "failed_scale_ups_total", "Scale-ups that failed.", "reason", *_GPU
)
SCALED_DOWN: Final = _series(
    "counter", "scaled_down_nodes_total", "Nodes that were removed.", "reason", *_GPU
)
EVICTED: Final = _series("counter", "evicted_pods_total", "Evicted pods.", "eviction_result")
OLD_UNREGISTERED: Final = _series(
    "counter", "old_unregistered_nodes_removed_count", "Unregistered nodes that were removed."
)


class Metrics:
    """Counts of one process, and what its last loop has seen."""

    def __init__(self) -> None:
        self._up = self._unregistered = self._unschedulable = 0
        self._down = dict.fromkeys(("underutilized", "empty", "unready"), 0)

    def saw(self, loop: Loop, unschedulable: int) -> None:
        """Count what a loop did, which has seen a number of pods that cannot be scheduled."""
        self._unschedulable = unschedulable
        if loop.scale_up is not None:
            self._up += sum(info.new - info.current for info in loop.scale_up.infos)
        self._unregistered += sum(told.reason == "DeleteUnregistered" for told in loop.events)

    def removed(self, reason: str) -> None:
        """Count a node that was removed."""
        self._down[reason] += 1

    def families(self, autoscaler: Autoscaler, evicted: Mapping[str, int]) -> Iterator[Family]:
        """Return all families."""
        state, cloud = autoscaler.state, autoscaler.state.cloud
        total = state.total
        yield SAFE.single(float(state.healthy))
        states = {
            "ready": total.ready,
            "unready": total.unready,
            "notStarted": total.not_started,
            "suspended": total.suspended,
            "unregistered": total.unregistered,
            "longUnregistered": total.long_unregistered,
        }
        yield NODES.family({(name,): float(len(found)) for name, found in states.items()})
        yield GROUPS.family({("autoscaled",): float(len(cloud.groups))})
        yield UNSCHEDULABLE.family({("unschedulable",): float(self._unschedulable)})
        yield MOST.single(float(sum(group.max_size for group in cloud.groups)))
        yield UNNEEDED.single(float(len(autoscaler.unneeded)))
        yield UNREMOVABLE.family(_by_reason(autoscaler.unremovable))
        yield SCALED_UP.family({_NO_GPU: float(self._up)})
        yield FAILED_UP.family(
            {(code, *_NO_GPU): float(count) for code, count in state.failures.items()}
        )
        yield SCALED_DOWN.family(
            {(reason, *_NO_GPU): float(count) for reason, count in self._down.items()}
        )
        yield EVICTED.family({(name,): float(count) for name, count in evicted.items()})
        yield OLD_UNREGISTERED.single(float(self._unregistered))


def _by_reason(nodes: list[Unremovable]) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {}
    for each in nodes:
        found[(each.reason,)] = found.get((each.reason,), 0.0) + 1
    return found
