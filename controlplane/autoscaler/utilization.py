"""The share of a node that its pods request, and which nodes are used little enough to go.

Upstream: `simulator/utilization/info.go`, `core/scaledown/eligibility/eligibility.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from controlplane.api.pod_resources import pod_requests
from controlplane.autoscaler.arithmetic import ratio
from controlplane.autoscaler.drain import terminates_for_long
from controlplane.autoscaler.groups import ZERO, Cloud, gpu_resource
from controlplane.autoscaler.nodes import being_deleted, keeps_out_of_scale_down, readiness
from controlplane.autoscaler.options import Options
from controlplane.autoscaler.pods import is_daemon_set_pod, is_mirror_pod
from controlplane.autoscaler.simulation import Placed, Simulation


@dataclass(frozen=True, slots=True)
class Utilization:
    """Shares in use; `value` is that of the resource that decides."""

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0
    resource: str = ""
    value: float = 0.0


def utilization(
    placed: Placed, gpu: str, now: int, *, skip_daemon_sets: bool, skip_mirror: bool
) -> Utilization | None:
    """Return the utilization of a node; None where it does not say how much it can allocate.

    `gpu` is the resource of its GPU, or empty. A node with a GPU is measured by that alone.
    """

    def share(name: str) -> float | None:
        return _share(placed, name, now, skip_daemon_sets, skip_mirror)

    if gpu:
        used = share(gpu) or 0.0
        return Utilization(gpu=used, resource=gpu, value=used)
    cpu, memory = share("cpu"), share("memory")
    if cpu is None or memory is None:
        return None
    if cpu > memory:
        return Utilization(cpu, memory, resource="cpu", value=cpu)
    return Utilization(cpu, memory, resource="memory", value=memory)


def _share(
    placed: Placed, name: str, now: int, skip_daemon_sets: bool, skip_mirror: bool
) -> float | None:
    whole = placed.node.status.allocatable.get(name)
    if whole is None or whole.milli_value() == 0:
        return None
    used = apart = ZERO
    for pod in placed.pods:
        amount = pod_requests(pod).get(name, ZERO)
        if (skip_daemon_sets and is_daemon_set_pod(pod)) or (skip_mirror and is_mirror_pod(pod)):
            apart = apart + amount
        elif not terminates_for_long(pod, now):
            used = used + amount
    return ratio(float(used.milli_value()), float(whole.milli_value() - apart.milli_value()))


@dataclass(frozen=True, slots=True)
class Eligible:
    """Candidates that may go, utilization of those that were measured, and (name, reason) of the others."""

    names: tuple[str, ...]
    utilization: dict[str, Utilization]
    refused: tuple[tuple[str, str], ...]


def eligible(
    simulation: Simulation,
    cloud: Cloud,
    options: Options,
    candidates: Iterable[str],
    now: int,
    recent: Callable[[str], bool] = lambda _name: False,
) -> Eligible:
    """Sort candidates; `recent` tells which were found unremovable a short time ago."""
    names, measured, refused = list[str](), dict[str, Utilization](), list[tuple[str, str]]()
    for name in candidates:
        placed = simulation.get(name)
        if placed is None:
            refused.append((name, "UnexpectedError"))
            continue
        if recent(name):
            refused.append((name, "RecentlyUnremovable"))
            continue
        reason, used = _judged(placed, cloud, options, now)
        if used is not None:
            measured[name] = used
        if reason:
            refused.append((name, reason))
        else:
            names.append(name)
    return Eligible(tuple(names), measured, tuple(refused))


def _judged(
    placed: Placed, cloud: Cloud, options: Options, now: int
) -> tuple[str, Utilization | None]:
    node = placed.node
    if being_deleted(node, now):
        return "CurrentlyBeingDeleted", None
    if keeps_out_of_scale_down(node):
        return "ScaleDownDisabledAnnotation", None
    group = cloud.group_of(node)
    if group is None:
        return "NotAutoscaled", None
    gpu = gpu_resource(node, cloud.gpu_label)
    used = utilization(
        placed,
        gpu,
        now,
        skip_daemon_sets=options.ignores_daemon_sets(group),
        skip_mirror=options.ignore_mirror_pods_utilization,
    )
    if used is None:
        return "UnexpectedError", None
    if not options.scale_down_unready and not readiness(node).ready:
        return "ScaleDownUnreadyDisabled", None
    if used.value > options.utilization_threshold_of(group, bool(gpu)):
        return "NotUnderutilized", used
    return "", used
