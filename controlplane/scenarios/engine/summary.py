"""A summary of a run: nodes, workloads, pods, and why pods are pending. Computed from the final objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import asdict, frozen

from actors.jsonl import seconds
from controlplane.api.quantity import Quantity
from controlplane.scenarios.engine.periodic import periodic_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.apiserver.loops.activity import Activity
    from controlplane.scenarios.engine.execution import Execution

ZERO = Quantity.parse("0")


@frozen
class NodeLine:
    """One node: is it ready, how many pods it runs, and how much of it they asked for."""

    name: str
    ready: bool
    pods: int
    cpu_requested: str
    cpu_allocatable: str
    memory_requested: str
    memory_allocatable: str


@frozen
class WorkloadLine:
    """One workload: wanted, ready and available replicas."""

    kind: str
    key: str
    wanted: int
    ready: int
    available: int


@frozen
class PodLine:
    """One pod. `why` says why it is not running (the scheduler's or the kubelet's message)."""

    key: str
    phase: str
    ready: bool
    node: str
    why: str


@frozen
class ActivityLine:
    """Counts over the run: pods created, bound and deleted, and their (virtual) time until bound.

    `writes` counts successful writes per kind of request, `refused` the others.
    """

    created: int
    bound: int
    deleted: int
    mean_wait_s: str
    longest_wait_s: str
    writes: dict[str, int]
    refused: dict[str, int]


@frozen
class Summary:
    """Everything a run ends with; `virtual_s` as exact decimal text."""

    verdict: str
    reason: str
    steps: int
    virtual_s: str
    trace_hash: str
    nodes: tuple[NodeLine, ...]
    workloads: tuple[WorkloadLine, ...]
    pods: tuple[PodLine, ...]
    activity: ActivityLine
    periodic: tuple[str, ...] = ()
    """The periodic work that is left in a settled cluster."""

    def pending(self) -> tuple[PodLine, ...]:
        """Pods that wait for a node or for their containers."""
        return tuple(pod for pod in self.pods if pod.phase == "Pending")

    def phases(self) -> dict[str, int]:
        """Pods per phase."""
        counts: dict[str, int] = {}
        for pod in self.pods:
            counts[pod.phase] = counts.get(pod.phase, 0) + 1
        return dict(sorted(counts.items()))

    def to_json(self) -> dict[str, Any]:
        """As a tree for programs."""
        return asdict(self)


def summary_of(run: Execution) -> Summary:
    """The summary of a finished run."""
    cluster, result = run.cluster, run.result
    pods = cluster.objects("/registry/pods/")
    return Summary(
        result.verdict,
        result.reason,
        result.steps,
        seconds(result.t_ns),
        result.trace_hash,
        node_lines(cluster.objects("/registry/minions/"), pods),
        workload_lines(
            {kind: cluster.objects(f"/registry/{prefix}/") for kind, prefix in WORKLOADS}
        ),
        pod_lines(pods),
        activity_line(cluster.activity),
        periodic_work(run) if result.verdict == "quiescent" else (),
    )


def activity_line(activity: Activity) -> ActivityLine:
    """The line of an API server's activity."""
    writes = dict(sorted(activity.writes.items()))
    bound = writes.get("create pods/binding", 0)
    return ActivityLine(
        writes.get("create pods", 0),
        bound,
        writes.get("delete pods", 0),
        seconds(activity.waits_ns // bound) if bound else "0",
        seconds(activity.longest_wait_ns),
        writes,
        dict(sorted(activity.refused.items())),
    )


def _requests(pod: Pod, resource: str) -> Quantity:
    total = ZERO
    for container in pod.spec.containers:
        asked = container.resources.requests.get(resource)
        if asked is not None:
            total = total.add(asked)
    return total


def node_lines(nodes: Iterable[Object], pods: Iterable[Object]) -> tuple[NodeLine, ...]:
    """One line per node, by name; finished pods no longer count."""
    placed: dict[str, list[Pod]] = {}
    for obj in pods:
        pod: Any = obj.view
        if pod.spec.node_name and pod.status.phase not in {"Succeeded", "Failed"}:
            placed.setdefault(pod.spec.node_name, []).append(pod)
    lines = []
    for obj in sorted(nodes, key=lambda found: found.name):
        node: Any = obj.view
        there = placed.get(node.name, [])
        cpu, memory = ZERO, ZERO
        for pod in there:
            cpu = cpu.add(_requests(pod, "cpu"))
            memory = memory.add(_requests(pod, "memory"))
        allocatable = node.status.allocatable
        lines.append(
            NodeLine(
                node.name,
                _ready(node),
                len(there),
                str(cpu),
                str(allocatable.get("cpu", ZERO)),
                str(memory),
                str(allocatable.get("memory", ZERO)),
            )
        )
    return tuple(lines)


def _ready(view: Node | Pod) -> bool:
    return any(found.type == "Ready" and found.status == "True" for found in view.status.conditions)


WORKLOADS: Final = (
    ("DaemonSet", "daemonsets"),
    ("Deployment", "deployments"),
    ("Job", "jobs"),
    ("ReplicaSet", "replicasets"),
    ("ReplicationController", "controllers"),
    ("StatefulSet", "statefulsets"),
)
"""Kinds that keep pods, with the prefixes under which they are stored."""


def workload_lines(of_kind: Mapping[str, Iterable[Object]]) -> tuple[WorkloadLine, ...]:
    """The controllers of pods that have no owner themselves, by kind and key."""
    lines = [
        _workload(kind, obj)
        for kind, found in of_kind.items()
        for obj in found
        if not obj.metadata.get("ownerReferences")
    ]
    return tuple(sorted(lines, key=lambda line: (line.kind, line.key)))


def _workload(kind: str, obj: Object) -> WorkloadLine:
    """Pods wanted, ready and available; of a Job completions wanted, and reached."""
    spec, status = obj.tree.get("spec") or {}, obj.tree.get("status") or {}
    if kind == "Job":
        wanted = spec.get("completions", spec.get("parallelism", 1))
        done = status.get("succeeded", 0)
        return WorkloadLine(kind, obj.key, wanted, done, done)
    if kind == "DaemonSet":
        wanted, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
        return WorkloadLine(kind, obj.key, wanted, ready, status.get("numberAvailable", 0))
    wanted = spec.get("replicas", 1)
    ready, available = status.get("readyReplicas", 0), status.get("availableReplicas", 0)
    return WorkloadLine(kind, obj.key, wanted, ready, available)


def pod_lines(pods: Iterable[Object]) -> tuple[PodLine, ...]:
    """One line per pod, by namespace and name."""
    lines = []
    for obj in sorted(pods, key=lambda found: found.key):
        pod: Any = obj.view
        lines.append(PodLine(obj.key, pod.status.phase, _ready(pod), pod.spec.node_name, _why(pod)))
    return tuple(lines)


def _why(pod: Pod) -> str:
    for found in pod.status.conditions:
        if found.type == "PodScheduled" and found.status == "False":
            return found.message
    if pod.status.message:
        return pod.status.message
    for status in pod.status.container_statuses:
        waiting = status.state.waiting
        if waiting is not None and waiting.reason:
            return f"{status.name}: {waiting.reason}"
    return ""
