"""The order in which the workloads of an application start: topological sorts of what they depend on.

Upstream walks maps, whose order is chance; here the order is that of the keys that a caller gives.
Follows `util/appgroup.go` of diktyo-io/appgroup-controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from controlplane.api.tree import Tree

__all__ = ["ALGORITHMS", "KAHN", "CycleError", "dependencies", "topology_order", "unordered"]

Edges = Mapping[str, Sequence[str]]
Sort = Callable[[Edges], list[str]]
KAHN: Final = "KahnSort"


class CycleError(ValueError):
    """Workloads depend on each other in a circle; the text is upstream's."""


def dependencies(group: Tree) -> dict[str, list[str]]:
    """Return the names of what each workload of an AppGroup depends on, also of those that are only named."""
    edges: dict[str, list[str]] = {}
    for each in _workloads(group):
        for needed in each.get("dependencies") or ():
            edges.setdefault(_name(each), []).append(_name(needed))
    for names in list(edges.values()):
        for name in names:
            edges.setdefault(name, [])
    return edges


def kahn(edges: Edges) -> list[str]:
    """Return the workloads, each before those that it depends on. Raises CycleError."""
    degrees = dict.fromkeys(edges, 0)
    for children in edges.values():
        for child in children:
            degrees[child] += 1
    free = [name for name, degree in degrees.items() if not degree]
    found: list[str] = []
    while free:
        name = free.pop()
        for child in edges[name]:
            degrees[child] -= 1
            if not degrees[child]:
                free.append(child)
        found.append(name)
    if len(found) < len(edges):
        circle = ", ".join(sorted(name for name, degree in degrees.items() if degree > 0))
        raise CycleError(f"cycle involving elements: {circle} ")
    return found


def tarjan(edges: Edges) -> list[str]:
    """Return the workloads, each before those that it depends on, found depth first. Raises CycleError."""
    found: list[str] = []
    done: set[str] = set()
    for root in edges:
        path: list[tuple[str, int]] = [] if root in done else [(root, 0)]
        open_: dict[str, None] = {name: None for name, _ in path}
        while path:
            name, at = path.pop()
            if at == len(edges[name]):
                del open_[name]
                done.add(name)
                found.append(name)
                continue
            path.append((name, at + 1))
            child = edges[name][at]
            if child in open_:
                raise CycleError(f"found cycle at node: {child}")
            if child not in done:
                open_[child] = None
                path.append((child, 0))
    return found[::-1]


def _reversed(sort: Sort) -> Sort:
    return lambda edges: sort(edges)[::-1]


def _alternating(sort: Sort) -> Sort:
    """First, last, second, last but one, ..."""

    def alternate(edges: Edges) -> list[str]:
        found = sort(edges)
        return [found[-(at // 2) - 1] if at % 2 else found[at // 2] for at in range(len(found))]

    return alternate


ALGORITHMS: Final[Mapping[str, Sort]] = {
    KAHN: kahn,
    "TarjanSort": tarjan,
    "ReverseKahn": _reversed(kahn),
    "ReverseTarjan": _reversed(tarjan),
    "AlternateKahn": _alternating(kahn),
    "AlternateTarjan": _alternating(tarjan),
}
"""The sorts by the names that `spec.topologySortingAlgorithm` may have; another one is KahnSort."""


def topology_order(group: Tree, edges: Edges) -> list[Tree]:
    """Return `status.topologyOrder` of an AppGroup, in the order of the selectors.

    As upstream, a workload that a sort names is looked for by that name among the selectors: where one is missing,
    and where workloads depend on each other in a circle, the order is that of the spec. `edges` are `dependencies`.
    """
    sort = ALGORITHMS.get(str((group.get("spec") or {}).get("topologySortingAlgorithm")), kahn)
    try:
        names = sort(edges)
    except CycleError:
        return unordered(_workloads(group))
    found = sorted(_workloads(group), key=_selector)
    by_selector = {_selector(each): each["workload"] for each in reversed(found)}
    if any(name not in by_selector for name in names):
        return unordered(found)
    made = [{"workload": by_selector[name], "index": at} for at, name in enumerate(names, 1)]
    return sorted(made, key=_selector)


def unordered(workloads: Sequence[Tree]) -> list[Tree]:
    """Return the order of the list itself, sorted by selector."""
    made = [{"workload": each["workload"], "index": at} for at, each in enumerate(workloads, 1)]
    return sorted(made, key=_selector)


def _workloads(group: Tree) -> Sequence[Any]:
    return (group.get("spec") or {}).get("workloads") or ()


def _name(each: Tree) -> str:
    return str(each["workload"].get("name") or "")


def _selector(each: Tree) -> str:
    return str(each["workload"].get("selector") or "")
