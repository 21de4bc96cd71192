"""Score of a node by the allocation of its resources.

Upstream: `plugins/noderesources/{resource_allocation,least_allocated,most_allocated,
requested_to_capacity_ratio,balanced_allocation}.go`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from controlplane.api.pod_resources import CPU, EPHEMERAL_STORAGE, MEMORY
from controlplane.scheduler.framework import args as a
from controlplane.scheduler.framework.interface import MAX_NODE_SCORE
from controlplane.scheduler.framework.scores import broken_linear, round_half_away
from controlplane.scheduler.state.resources import Requests, is_scalar_resource

if TYPE_CHECKING:
    from controlplane.scheduler.state.node_info import NodeInfo

Scorer = Callable[[Sequence[int], Sequence[int]], int]
"""(requested, allocatable) per resource -> 0..100; allocatable 0 leaves a resource out."""

MAX_CUSTOM_SCORE = 10


def request_amounts(requests: Requests, resources: Sequence[a.ResourceSpec]) -> list[int]:
    """Return the pod's request of each resource: millicores for cpu, else units."""
    out: list[int] = []
    for spec in resources:
        quantity = requests.get(spec.name)
        if quantity is None:
            out.append(0)
        else:
            out.append(quantity.milli_value() if spec.name == CPU else quantity.value())
    return out


class Devices(Protocol):
    """Devices of nodes as resources."""

    def of(self, node: NodeInfo, resource: str) -> tuple[int, int]:
        """(devices, those in use) that a class gives on a node; (0, 0) for none."""


def node_amounts(
    node: NodeInfo, name: str, pod_request: int, plain: bool, devices: Devices | None = None
) -> tuple[int, int]:
    """(allocatable, requested without the pod) of a resource; (0, 0) leaves it out of the score.

    `plain` uses the requested sums as they are instead of those with defaults filled in.
    """
    allocatable = node.allocatable
    if name == CPU:
        used = node.requested.milli_cpu if plain else node.non_zero_cpu
        return allocatable.milli_cpu, used
    if name == MEMORY:
        return allocatable.memory, node.requested.memory if plain else node.non_zero_memory
    if name == EPHEMERAL_STORAGE:
        return allocatable.ephemeral_storage, node.requested.ephemeral_storage
    if pod_request == 0 and is_scalar_resource(name):
        return 0, 0
    if devices is not None and not allocatable.scalars.get(name, 0):
        found = devices.of(node, name)
        if found[0] > 0:
            return found
    if name in allocatable.scalars:
        return allocatable.scalars[name], node.requested.scalars.get(name, 0)
    return 0, 0


def node_vectors(
    node: NodeInfo,
    resources: Sequence[a.ResourceSpec],
    pod: Sequence[int],
    plain: bool,
    devices: Devices | None = None,
) -> tuple[list[int], list[int], list[int]]:
    """Per resource: requested with the pod, requested without it, allocatable."""
    requested: list[int] = []
    before: list[int] = []
    allocatable: list[int] = []
    for spec, amount in zip(resources, pod):
        name = spec.name
        if name == CPU:
            capacity = node.allocatable.milli_cpu
            used = node.requested.milli_cpu if plain else node.non_zero_cpu
        elif name == MEMORY:
            capacity = node.allocatable.memory
            used = node.requested.memory if plain else node.non_zero_memory
        else:
            capacity, used = node_amounts(node, name, amount, plain, devices)
        if capacity == 0:
            used = amount = 0
        requested.append(used + amount)
        before.append(used)
        allocatable.append(capacity)
    return requested, before, allocatable


def make_scorer(args: a.NodeResourcesFitArgs) -> Scorer:
    """The scorer of NodeResourcesFit for its scoring strategy."""
    weights = [spec.weight for spec in args.resources]
    if args.strategy == a.REQUESTED_TO_CAPACITY_RATIO:
        shape = args.shape
        factor = MAX_NODE_SCORE // MAX_CUSTOM_SCORE

        def ratio(requested: int, capacity: int) -> int:
            if requested > capacity:
                return broken_linear(shape, 100, factor)
            return broken_linear(shape, requested * 100 // capacity, factor)

        return _ratio_scorer(weights, ratio)
    one = _most if args.strategy == a.MOST_ALLOCATED else _least

    def weighted(requested: Sequence[int], allocatable: Sequence[int]) -> int:
        score = weight_sum = 0
        for i, capacity in enumerate(allocatable):
            if capacity:
                score += one(requested[i], capacity) * weights[i]
                weight_sum += weights[i]
        return score // weight_sum if weight_sum else 0

    return weighted


def _least(requested: int, capacity: int) -> int:
    return 0 if requested > capacity else (capacity - requested) * MAX_NODE_SCORE // capacity


def _most(requested: int, capacity: int) -> int:
    return min(requested, capacity) * MAX_NODE_SCORE // capacity


def _ratio_scorer(weights: Sequence[int], ratio: Callable[[int, int], int]) -> Scorer:
    def scorer(requested: Sequence[int], allocatable: Sequence[int]) -> int:
        score = weight_sum = 0
        for i, capacity in enumerate(allocatable):
            if capacity == 0:
                continue
            points = ratio(requested[i], capacity)
            if points > 0:  # a resource without points does not take part in the mean
                score += points * weights[i]
                weight_sum += weights[i]
        return round_half_away(float(score) / float(weight_sum)) if weight_sum else 0

    return scorer


def balance(requested: Sequence[int], allocatable: Sequence[int]) -> int:
    """100 when all resources are used to the same fraction, less the more they differ."""
    if len(allocatable) == 2 and allocatable[0] and allocatable[1]:
        one = float(requested[0]) / float(allocatable[0])
        other = float(requested[1]) / float(allocatable[1])
        half = abs((min(one, 1.0) - min(other, 1.0)) / 2)
        return int((1 - half) * float(MAX_NODE_SCORE))
    fractions = [
        min(float(used) / float(capacity), 1.0)
        for used, capacity in zip(requested, allocatable)
        if capacity
    ]
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        total = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * float(MAX_NODE_SCORE))
