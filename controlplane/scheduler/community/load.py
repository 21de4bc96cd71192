"""The measured load of nodes, as trimaran's load watcher tells it.

In a world the figures are those of the emulated usage of pods that run (`emulate.controlplane/cpu-usage`, or usages of
KWOK's files for pods on fake nodes), as the metrics server would report them, without its lag.
Upstream: pkg/trimaran/collector.go, handler.go, resourcestats.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from attrs import frozen

from controlplane.api import usage
from controlplane.api.object import Object
from controlplane.api.quantity import parse

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.scheduler.framework.handle import Handle
    from controlplane.scheduler.state.node_info import NodeInfo

__all__ = ["Emulated", "Load", "Metric", "Stats", "effective", "milli", "stats_of"]

AVERAGE: Final = "AVG"
LATEST: Final = "Latest"
DEVIATION: Final = "STD"
CPU: Final = "CPU"
MEMORY: Final = "Memory"
MEGA: Final = 1.0 / 1024 / 1024


@frozen
class Metric:
    """One figure of a node in percent of its capacity; `operator` is AVG, STD, Latest or another."""

    type: str
    operator: str
    value: float


class Load(Protocol):
    """The source of figures."""

    def metrics(self, node: NodeInfo) -> Sequence[Metric] | None:
        """Return the figures of a node; None where there are none."""

    def unmeasured(self, node: NodeInfo) -> Sequence[Tree]:
        """Return the pods of a node that its figures do not show yet."""


@frozen
class Emulated:
    """The emulated usage of pods, as it is at the time of the cycle."""

    handle: Handle

    def metrics(self, node: NodeInfo) -> Sequence[Metric] | None:
        """Return the figures of a node with a capacity."""
        assert node.node is not None
        tree = node.node.tree
        handle = self.handle
        read = usage.reading(
            handle.usage, lambda _: Object(tree), handle.clock(), handle.custom.list
        )
        capacity = (tree.get("status") or {}).get("capacity") or {}
        used = usage.of_pods((info.pod.tree for info in node.pods), read)
        found = []
        for kind, name in ((CPU, "cpu"), (MEMORY, "memory")):
            most = milli(capacity.get(name))
            if most:
                found.append(Metric(kind, LATEST, 100 * used[name] / most))
        return found

    def unmeasured(self, node: NodeInfo) -> Sequence[Tree]:
        """Return the pods of a node that do not run yet."""
        return [info.pod.tree for info in node.pods if not usage.running_containers(info.pod.tree)]


def milli(amount: object) -> int:
    """Return a quantity in thousandths, rounded up; 0 for nothing."""
    return 0 if amount is None else parse(str(amount)).milli_value()


def whole(amount: object) -> int:
    """Return a quantity in units, rounded up; 0 for nothing."""
    return 0 if amount is None else parse(str(amount)).value()


def effective(pod: Tree, field: str) -> tuple[int, int]:
    """Return the milli CPU and the bytes that a pod requests, or its limits: the sum of its containers, at least each
    init container, and the overhead.
    """
    spec = pod["spec"]

    def amounts(container: Tree, read: Callable[[object], int], name: str) -> int:
        return read(((container.get("resources") or {}).get(field) or {}).get(name))

    found = []
    for name, read in (("cpu", milli), ("memory", whole)):
        total = sum(amounts(each, read, name) for each in spec.get("containers") or ())
        for each in spec.get("initContainers") or ():
            total = max(total, amounts(each, read, name))
        found.append(total + read((spec.get("overhead") or {}).get(name)))
    return found[0], found[1]


@frozen
class Stats:
    """Use of one resource of a node: what it has, what a pod asks for, the mean and the deviation of its use."""

    capacity: float
    asked: float
    mean: float
    deviation: float

    def fractions(self) -> tuple[float, float]:
        """Return the mean with the pod, and the deviation, in shares of the capacity."""
        if self.capacity <= 0:
            return 0.0, 0.0
        mean = (self.mean + self.asked) / self.capacity
        return _share(mean), _share(self.deviation / self.capacity)


def _share(value: float) -> float:
    return max(min(value, 1.0), 0.0)


def stats_of(
    metrics: Sequence[Metric], node: NodeInfo, asked: tuple[int, int], kind: str
) -> Stats | None:
    """Return the statistics of a resource; None where no figure is of it."""
    found = _figures(metrics, kind)
    if found is None:
        return None
    assert node.node is not None
    has = (node.node.tree.get("status") or {}).get("allocatable") or {}
    if kind == CPU:
        capacity, wanted = float(milli(has.get("cpu"))), float(asked[0])
    else:
        capacity, wanted = whole(has.get("memory")) * MEGA, asked[1] * MEGA
    return Stats(capacity, wanted, found[0] * capacity / 100, found[1] * capacity / 100)


def _figures(metrics: Sequence[Metric], kind: str) -> tuple[float, float] | None:
    mean = deviation = 0.0
    averaged = valid = False
    for metric in metrics:
        if metric.type != kind:
            continue
        valid = True
        if metric.operator == AVERAGE:
            mean, averaged = metric.value, True
        elif metric.operator == DEVIATION:
            deviation = metric.value
        elif metric.operator in ("", LATEST) and not averaged:
            mean = metric.value
    return (mean, deviation) if valid else None
