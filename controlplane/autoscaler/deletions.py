"""Limits of nodes that are deleted at the same time.

Upstream: `core/scaledown/budgets/budgets.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controlplane.api.node import Node
from controlplane.autoscaler.groups import Cloud, NodeGroup
from controlplane.autoscaler.options import Options
from controlplane.autoscaler.planner import Deletions, Ongoing


@dataclass(frozen=True, slots=True)
class Batch:
    """Nodes of one group that are deleted together; `drained` tells whether pods move first."""

    group: str
    nodes: tuple[Node, ...]
    drained: bool = False


@dataclass(slots=True)
class _Budget:
    total: int
    drain: int
    overflows: bool = True
    """A group that goes only as a whole may go over the budget once."""


def within_budget(
    found: Deletions, cloud: Cloud, options: Options, ongoing: Ongoing, nodes: Sequence[Node]
) -> list[Batch]:
    """Return the batches that may begin: whole groups first, then empty nodes, then nodes to drain."""
    empty, drained = _by_group(found.empty, cloud), _by_group(found.drained, cloud)
    budget = _Budget(
        options.parallelism - len(ongoing.empty) - len(ongoing.drained),
        options.drain_parallelism - len(ongoing.drained),
    )
    whole = _whole_groups(empty, drained, cloud, nodes, budget)
    first = _cropped(_single(empty, cloud), budget.total, drained=False)
    budget.total -= sum(len(each.nodes) for each in first)
    budget.drain = min(budget.total, budget.drain)
    last = _cropped(_single(drained, cloud), budget.drain, drained=True)
    batches = [*whole, *first, *last]
    return sorted(batches, key=lambda each: each.drained)


def _by_group(nodes: Iterable[Node], cloud: Cloud) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in nodes:
        group = cloud.group_of(node)
        if group is not None:
            found.setdefault(group.id, []).append(node)
    return found


def _atomic(group: str, cloud: Cloud) -> NodeGroup | None:
    known = cloud.group(group)
    return known if known is not None and known.options.zero_or_max else None


def _single(groups: dict[str, list[Node]], cloud: Cloud) -> dict[str, list[Node]]:
    return {name: nodes for name, nodes in groups.items() if _atomic(name, cloud) is None}


def _cropped(groups: dict[str, list[Node]], budget: int, *, drained: bool) -> list[Batch]:
    batches: list[Batch] = []
    for name, nodes in groups.items():
        if budget < 1:
            break
        kept = tuple(nodes[:budget])
        batches.append(Batch(name, kept, drained))
        budget -= len(kept)
    return batches


def _whole_groups(
    empty: dict[str, list[Node]],
    drained: dict[str, list[Node]],
    cloud: Cloud,
    nodes: Sequence[Node],
    budget: _Budget,
) -> list[Batch]:
    batches: list[Batch] = []
    for name, members in empty.items():
        group = _atomic(name, cloud)
        if group is None:
            continue
        more = drained.get(name, [])
        count = len(members) + len(more)
        if budget.total < count or budget.drain < len(more):
            if budget.total == 0 or (more and budget.drain == 0) or not budget.overflows:
                break
        if count not in (group.target, len(cloud.registered(group, nodes))):
            continue
        batches.append(Batch(name, tuple(members)))
        if more:
            batches.append(Batch(name, tuple(more), drained=True))
        budget.total -= count
        budget.drain -= len(more)
        budget.overflows = False
    budget.drain = min(budget.total, budget.drain)
    for name, members in drained.items():
        group = _atomic(name, cloud)
        if group is None or name in empty:
            continue
        if budget.drain < len(members) and (budget.drain == 0 or not budget.overflows):
            break
        if len(members) not in (group.target, len(cloud.registered(group, nodes))):
            continue
        batches.append(Batch(name, tuple(members), drained=True))
        budget.total -= len(members)
        budget.drain -= len(members)
        budget.overflows = False
    return batches
