"""Groups of alike nodes, and the distribution of new nodes among them.

Upstream: `processors/nodegroupset/{compare_nodegroups,balancing_processor}.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from controlplane.api.go_sort import sort_slice
from controlplane.api.quantity import Quantity
from controlplane.autoscaler.groups import ZERO, NodeGroup, Template
from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.pod_info import PodInfo

Resources = Mapping[str, Quantity]

IGNORED_LABELS: Final = (
    "kubernetes.io/hostname",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "beta.kubernetes.io/fluentd-ds-ready",
    "kops.k8s.io/instancegroup",
)


@dataclass(frozen=True, slots=True)
class Ratios:
    """The greatest differences, as shares of the larger value, between nodes that count as alike."""

    memory: float = 0.015
    free: float = 0.05
    allocatable: float = 0.05


@dataclass(frozen=True, slots=True)
class ScaleUpInfo:
    """The size of a group before and after a scale-up, and its maximum."""

    group: str
    current: int
    new: int
    maximum: int


def alike(
    left: Template, right: Template, ratios: Ratios, more_ignored: Iterable[str] = ()
) -> bool:
    """Return whether the nodes of two groups are alike: resources, what is free of them, labels."""
    pair = (left, right)
    one, two = (each.node.status.capacity for each in pair)
    if one.keys() != two.keys():
        return False
    for name, amount in one.items():
        if name == "memory":
            if not _near(amount, two[name], ratios.memory):
                return False
        elif amount.cmp(two[name]):
            return False
    allocatable = left.node.status.allocatable, right.node.status.allocatable
    free = _free(left), _free(right)
    return (
        _all_near(allocatable, ratios.allocatable)
        and _all_near(free, ratios.free)
        and _same_labels(left, right, (*IGNORED_LABELS, *more_ignored))
    )


def _near(one: Quantity, two: Quantity, share: float) -> bool:
    values = float(one.milli_value()), float(two.milli_value())
    larger = max(values)
    return larger - min(values) <= larger * share


def _all_near(pair: tuple[Resources, Resources], share: float) -> bool:
    one, two = pair
    return one.keys() == two.keys() and all(_near(one[each], two[each], share) for each in one)


def _free(template: Template) -> dict[str, Quantity]:
    """Resources that the pods of the template leave free; resources of which the scheduler keeps a sum."""
    info = NodeInfo(*(PodInfo(pod) for pod in template.pods))
    requested = info.requested
    used = {
        "cpu": Quantity.new_milli(requested.milli_cpu),
        "memory": Quantity.new(requested.memory),
        "pods": Quantity.new(requested.allowed_pod_number),
        "ephemeral-storage": Quantity.new(requested.ephemeral_storage),
    }
    for name, amount in requested.scalars.items():
        used[name] = Quantity.new(amount)
    allocatable = template.node.status.allocatable
    return {name: allocatable.get(name, ZERO) - amount for name, amount in used.items()}


def _same_labels(left: Template, right: Template, ignored: Sequence[str]) -> bool:
    one, two = (
        {key: value for key, value in each.node.metadata.labels.items() if key not in ignored}
        for each in (left, right)
    )
    return one == two


def similar_groups(
    group: str,
    groups: Sequence[NodeGroup],
    templates: Mapping[str, Template],
    ratios: Ratios,
    more_ignored: Sequence[str] = (),
) -> list[NodeGroup]:
    """Return the other groups whose nodes are like those of a group, in the provider's order."""
    own = templates[group]
    return [
        other
        for other in groups
        if other.id != group
        and other.id in templates
        and alike(own, templates[other.id], ratios, more_ignored)
    ]


def balance(groups: Sequence[NodeGroup], nodes: int) -> list[ScaleUpInfo]:
    """Distribute new nodes so that the sizes of the groups come close to each other.

    Return the groups that grow. What exceeds the room of all groups is dropped.
    """
    growing = [group for group in groups if group.target != group.max_size]
    nodes = min(nodes, sum(group.room for group in growing))
    sort_slice(growing, lambda left, right: left.target < right.target)
    sizes = [group.target for group in growing]
    first = at = 0
    while nodes > 0:
        held = at  # the slot keeps its place when a full group is swapped away from it
        if sizes[at] < growing[at].max_size:
            sizes[at] += 1
            nodes -= 1
        else:
            growing[first], growing[at] = growing[at], growing[first]
            sizes[first], sizes[at] = sizes[at], sizes[first]
            first += 1
        onward = held < len(sizes) - 1 and sizes[held] > sizes[held + 1]
        at = held + 1 if onward else first
    return [
        ScaleUpInfo(group.id, group.target, size, group.max_size)
        for group, size in zip(growing, sizes, strict=True)
        if size != group.target
    ]
