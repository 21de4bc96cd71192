"""Topology requests of a pod set: level, slices, and how the pods of a group belong together.

Follows the helpers of `pkg/cache/scheduler/tas_flavor_snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.amounts import Requests
from controlplane.kueue.topology.assignment import Assignment

_EXPLICIT: Final = (
    "unconstrained",
    "required",
    "preferred",
    "podSetSliceRequiredTopology",
    "podSetSliceSize",
)


@dataclass(frozen=True)
class PodSetRequest:
    """One pod set to place on one flavor.

    Args:
        pod_set: The pod set of the Workload.
        single_pod: Requests of one pod, from its specification.
        count: Pods to place.
        flavor: The flavor with the topology.
        implied: The queue has only such flavors and the pod set asks for no topology.
        group: Pod sets of one group are placed together.
        updates: `podSetUpdates` of admission checks for this pod set.
        previous: Where the pods of the slice that is replaced are.
    """

    pod_set: Tree
    single_pod: Requests
    count: int
    flavor: str = ""
    implied: bool = False
    group: str | None = None
    updates: tuple[Tree, ...] = ()
    previous: Assignment | None = None

    @property
    def name(self) -> str:
        """The pod set's name."""
        return str(self.pod_set.get("name", ""))

    @property
    def topology(self) -> Tree | None:
        """The topology request, None if there is none."""
        return self.pod_set.get("topologyRequest")

    def with_topology(self, topology: Tree) -> PodSetRequest:
        """The same request with another topology request."""
        return replace(self, pod_set={**self.pod_set, "topologyRequest": topology})


@dataclass(frozen=True)
class Layer:
    """Slices: pods in groups of `size`, each within one domain of level `topology`."""

    topology: str
    size: int


@dataclass(frozen=True)
class Parameters:
    """A request resolved against the levels of a topology.

    `inner` holds the slice size of levels below the outermost slices, where there are any.
    """

    count: int
    leaders: int
    size: int
    level: int
    slice_level: int
    required: bool
    unconstrained: bool
    inner: Mapping[int, int]
    layers: tuple[Layer, ...]


def layers_of(topology: Tree | None) -> tuple[Layer, ...]:
    """The slice constraints from the outermost in, whichever fields name them."""
    if topology is None:
        return ()
    listed = topology.get("podsetSliceRequiredTopologyConstraints")
    if listed:
        return tuple(Layer(each.get("topology", ""), int(each.get("size") or 0)) for each in listed)
    single = topology.get("podSetSliceRequiredTopology")
    if single is None:
        return ()
    return (Layer(single, int(topology.get("podSetSliceSize") or 0)),)


def is_required(topology: Tree | None) -> bool:
    """Return whether a level is required."""
    return topology is not None and topology.get("required") is not None


def only_slices(topology: Tree | None) -> bool:
    """Return whether slices are asked for and no level for the whole pod set."""
    if topology is None or is_required(topology) or topology.get("preferred") is not None:
        return False
    return bool(layers_of(topology))


def is_unconstrained(request: PodSetRequest) -> bool:
    """Return whether the pod set as a whole may be spread over everything."""
    topology = request.topology
    return (
        bool(topology and topology.get("unconstrained")) or request.implied or only_slices(topology)
    )


def asks_for_topology(pod_set: Tree) -> bool:
    """Return whether a pod set names a level or slices itself."""
    topology = pod_set.get("topologyRequest")
    return topology is not None and (
        any(topology.get(field) is not None for field in _EXPLICIT)
        or bool(topology.get("podsetSliceRequiredTopologyConstraints"))
    )


def level_label(topology: Tree | None, levels: tuple[str, ...]) -> str | None:
    """The level that the whole pod set is placed on, None if the request names none."""
    if topology is None:
        return None
    for field in ("required", "preferred"):
        if topology.get(field) is not None:
            return str(topology[field])
    if only_slices(topology):
        return levels[0]
    return levels[-1] if topology.get("unconstrained") else None


def label_of(request: PodSetRequest, levels: tuple[str, ...]) -> str | None:
    """The same, with the lowest level when the topology is implied."""
    found = level_label(request.topology, levels)
    return levels[-1] if found is None and request.implied else found


def slice_label(topology: Tree | None, levels: tuple[str, ...]) -> str:
    """The level of the outermost slices."""
    layers = layers_of(topology)
    return layers[0].topology if layers else levels[-1]


def slice_size(topology: Tree | None) -> tuple[int, str]:
    """The size of the outermost slices, 1 if there are none; and why it cannot be told."""
    layers = layers_of(topology)
    if not layers:
        return 1, ""
    if layers[0].size <= 0:
        return 0, "slice topology requested, but slice size not provided"
    return layers[0].size, ""


def has_levels(topology: Tree | None, levels: tuple[str, ...]) -> bool:
    """Return whether a topology has all levels that a request names."""
    main = level_label(topology, levels)
    named = [main, slice_label(topology, levels), *(each.topology for each in layers_of(topology))]
    return all(each in levels for each in named)


def leader_and_workers(
    group: Sequence[PodSetRequest],
) -> tuple[PodSetRequest | None, PodSetRequest]:
    """Of two pod sets of a group the smaller one leads; of equal ones the second."""
    if len(group) < 2:
        return None, group[0]
    first, second = group[0], group[1]
    return (first, second) if second.count > first.count else (second, first)


def parameters(
    request: PodSetRequest, leaders: int, levels: tuple[str, ...]
) -> tuple[Parameters | None, str]:
    """Resolve a request; the second value says why it cannot be."""
    topology = request.topology
    size, problem = slice_size(topology)
    if problem:
        return None, problem
    label = label_of(request, levels)
    if label is None:
        return None, "topology level not specified"
    if label not in levels:
        return None, f"no requested topology level: {label}"
    slices = slice_label(topology, levels)
    if slices not in levels:
        return None, f"no requested topology level for slices: {slices}"
    level, slice_level = levels.index(label), levels.index(slices)
    if level > slice_level:
        return None, f"podset slice topology {slices} is above the podset topology {label}"
    layers = layers_of(topology)
    inner, problem = _inner_sizes(layers[1:], size, slice_level, levels)
    if problem:
        return None, problem
    return (
        Parameters(
            request.count,
            leaders,
            size,
            level,
            slice_level,
            is_required(topology),
            is_unconstrained(request),
            inner,
            layers if inner else (),
        ),
        "",
    )


def _inner_sizes(
    layers: Sequence[Layer], size: int, level: int, levels: tuple[str, ...]
) -> tuple[dict[int, int], str]:
    """Slice sizes by level below the outermost slices; levels between two layers take the finer one."""
    sizes: dict[int, int] = {}
    for layer in layers:
        if layer.topology not in levels:
            return {}, f"no requested topology level for additional slice layer: {layer.topology}"
        found = levels.index(layer.topology)
        if found <= level:
            return {}, (
                f"additional slice layer topology {layer.topology} must be at a lower level than "
                f"{levels[level]}"
            )
        if layer.size == 0 or size % layer.size:
            return {}, (
                f"additional slice layer size {layer.size} must evenly divide parent layer size {size}"
            )
        sizes.update(dict.fromkeys(range(level + 1, found + 1), layer.size))
        size, level = layer.size, found
    return sizes, ""
