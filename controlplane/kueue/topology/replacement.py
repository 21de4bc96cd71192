"""Another place for the pods of a node that failed, without moving the rest.

Follows `findReplacementAssignment` of `pkg/cache/scheduler/tas_flavor_snapshot.go`.
"""

from __future__ import annotations

from itertools import groupby

from controlplane.kueue.topology.assignment import Assignment, DomainCount
from controlplane.kueue.topology.requests import (
    PodSetRequest,
    is_required,
    label_of,
    layers_of,
    slice_label,
    slice_size,
)
from controlplane.kueue.topology.tree import Domain, TopologyTree


def without_node(assignment: Assignment, node: str) -> tuple[Assignment, int]:
    """The assignment without a node, and the pods that were on it."""
    pods = 0
    kept = []
    for each in assignment.domains:
        if each.values[-1] == node:
            pods = each.count
        else:
            kept.append(each)
    return Assignment(assignment.levels, tuple(kept)), pods


def stale_domain(tree: TopologyTree, assignment: Assignment) -> str | None:
    """The first value of a domain that no longer exists, None if all do."""
    for each in assignment.domains:
        if each.id not in tree.leaves:
            return each.values[0]
    return None


def merged(tree: TopologyTree, a: Assignment, b: Assignment) -> Assignment:
    """Both assignments as one, in the order of the domains' full names."""
    lowest = tree.by_level[-1]
    together = sorted((*a.domains, *b.domains), key=lambda each: ",".join(lowest[each.id].values))
    return Assignment(
        a.levels,
        tuple(
            DomainCount(values, sum(each.count for each in same))
            for values, same in groupby(together, key=lambda each: each.values)
        ),
    )


def required_domain(tree: TopologyTree, request: PodSetRequest, rest: Assignment) -> str:
    """The domain that the replaced pods must stay in, empty if any will do.

    Args:
        tree: The topology.
        request: The pod set with the number of pods to replace.
        rest: Where the other pods are.
    """
    label = label_of(request, tree.levels)
    level = None if label is None else tree.level(label)
    if level is None or not rest.domains:
        return ""
    size, problem = slice_size(request.topology)
    if problem:
        return ""
    layers = layers_of(request.topology)
    if layers and request.count % size:
        if len(layers) > 1:
            for layer in reversed(layers):
                if layer.size and request.count % layer.size:
                    return _broken_slice(tree, request.count, rest, layer.size, layer.topology)
        return _broken_slice(
            tree, request.count, rest, size, slice_label(request.topology, tree.levels)
        )
    if not is_required(request.topology):
        return ""
    return _above(tree, rest.domains[0], level)


def narrowed(request: PodSetRequest, domain: str) -> PodSetRequest:
    """The request with the innermost slices that still divide the pods to replace."""
    size, _ = slice_size(request.topology)
    layers = layers_of(request.topology)
    if request.topology is None or not layers or not domain or request.count % size == 0:
        return request
    topology = dict(request.topology)
    for field in (
        "podsetSliceRequiredTopologyConstraints", "podSetSliceRequiredTopology", "podSetSliceSize",
    ):  # fmt: skip
        topology.pop(field, None)
    for layer in reversed(layers):
        if layer.size and request.count % layer.size == 0:
            topology["podSetSliceRequiredTopology"] = layer.topology
            topology["podSetSliceSize"] = layer.size
            break
    else:
        topology["podSetSliceSize"] = 1
    return request.with_topology(topology)


def _above(tree: TopologyTree, place: DomainCount, level: int) -> str:
    """The domain of a level that a lowest domain lies in, empty if the domain is unknown."""
    domain: Domain | None = tree.by_level[-1].get(place.id)
    for _ in range(len(tree.levels) - 1 - level):
        domain = None if domain is None else domain.parent
    return "" if domain is None else domain.id


def _broken_slice(tree: TopologyTree, missing: int, rest: Assignment, size: int, label: str) -> str:
    """The first domain of a level whose pods make whole slices with the missing ones."""
    level = tree.level(label)
    if level is None:
        return ""
    counts: dict[str, int] = {}
    for each in rest.domains:
        found = _above(tree, each, level)
        if found:
            counts[found] = counts.get(found, 0) + each.count
    return next((name for name, count in counts.items() if (count + missing) % size == 0), "")
