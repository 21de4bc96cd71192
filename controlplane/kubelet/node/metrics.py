"""Names and meanings of a kubelet's metrics. Upstream: pkg/kubelet/metrics/metrics.go.

The managers count under names without `kubelet_`, which all of them begin with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.metrics.family import Kind, Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controlplane.kubelet.pod.container_runtime import Sandbox
    from controlplane.metrics.family import Family
    from controlplane.metrics.histogram import Histogram
    from controlplane.metrics.numbers import Metrics

__all__ = ["ADMISSION_REJECTIONS", "EVICTIONS", "SERIES", "families", "rejection"]

PREFIX: Final = "kubelet_"
ADMISSION_REJECTIONS: Final = "admission_rejections_total"
EVICTIONS: Final = "evictions"
_C: Final[Kind] = "counter"
_G: Final[Kind] = "gauge"
_ALIGNED: Final = ("scope", "boundary")
_MANAGED: Final = ("resource_name", "source")
_TOLD: Final[tuple[tuple[str, Kind, tuple[str, ...], str], ...]] = (
    (ADMISSION_REJECTIONS, _C, ("reason",), "Pods that this node refused to run."),
    ("container_aligned_compute_resources_count", _C, _ALIGNED,
     "Containers and pods that got what they asked for within one boundary."),
    ("container_aligned_compute_resources_failure_count", _C, _ALIGNED,
     "Containers and pods that did not get what they asked for within one boundary."),
    ("cpu_manager_allocation_per_numa", _G, ("numa_node",),
     "Exclusive CPUs of a NUMA node; one that has none any more keeps its last value."),
    ("cpu_manager_exclusive_cpu_allocation_count", _G, (), "CPUs that belong to one container."),
    ("cpu_manager_pinning_errors_total", _C, (), "Requests for exclusive CPUs that failed."),
    ("cpu_manager_pinning_requests_total", _C, (), "Requests for exclusive CPUs."),
    ("cpu_manager_shared_pool_size_millicores", _G, (),
     "CPUs that containers without CPUs of their own share, in thousandths."),
    ("evictions", _C, ("eviction_signal",), "Pods that went since the node was under pressure."),
    ("memory_manager_pinning_errors_total", _C, (), "Requests for memory of NUMA nodes that failed."),
    ("memory_manager_pinning_requests_total", _C, (), "Requests for memory of NUMA nodes."),
    ("pod_deferred_accepted_resizes_total", _C, ("retry_trigger",),
     "Resizes that were granted after they had to wait."),
    ("pod_in_progress_resizes", _G, (), "Pods whose resize is being carried out."),
    ("pod_infeasible_resizes_total", _C, ("reason_detail",), "Resizes that this node can never grant."),
    ("pod_pending_resizes", _G, ("reason",), "Pods whose resize waits."),
    ("resource_manager_allocation_errors_total", _C, _MANAGED,
     "Allocations of a resource manager that failed."),
    ("resource_manager_allocations_total", _C, _MANAGED, "Allocations of a resource manager."),
    ("resource_manager_container_assignments", _C, ("resource_name", "assignment_type"),
     "Containers by the kind of resources that they were assigned."),
    ("running_containers", _G, ("container_state",), "Containers that the runtime knows."),
    ("running_pods", _G, (), "Pods whose sandbox the runtime has."),
    ("topology_manager_admission_errors_total", _C, (),
     "Pods refused since their resources could not be aligned."),
    ("topology_manager_admission_requests_total", _C, (), "Pods whose resources were to be aligned."),
)  # fmt: skip
SERIES: Final = {
    name: Series(f"{PREFIX}{name}", kind, text, labels) for name, kind, labels, text in _TOLD
}
"""Every series by the name under which it is counted."""


def rejection(reason: str) -> str:
    """The label of a refused pod: extended resources share one, for their names are not limited."""
    extended = reason.startswith("OutOf") and "/" in reason
    return "OutOfExtendedResources" if extended else reason


def families(metrics: Metrics, sandboxes: Iterable[Sandbox]) -> Iterator[Family]:
    """A snapshot of one kubelet's numbers, and of what its runtime has at present."""
    found: dict[str, dict[tuple[str, ...], float | Histogram]] = {}
    for name, labels, value in metrics.items():
        given = dict(labels)
        key = tuple(given[label] for label in SERIES[name].labels)
        found.setdefault(name, {})[key] = value
    for name, values in found.items():
        yield SERIES[name].family(values)
    pods = 0
    states = {"created": 0, "exited": 0, "running": 0}
    for sandbox in sandboxes:
        pods += sandbox.ready_at is not None
        for container in sandbox.containers.values():
            if container.running_since is not None:
                states["running"] += 1
            else:
                states["created" if container.exit is None else "exited"] += 1
    yield SERIES["running_pods"].single(pods)
    yield SERIES["running_containers"].family({(state,): count for state, count in states.items()})
