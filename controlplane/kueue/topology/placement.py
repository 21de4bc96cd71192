"""Placing the pods of one pod set, with its leader if it has one, on the domains of a flavor.

Follows `findTopologyAssignment` of `pkg/cache/scheduler/tas_flavor_snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.kueue.topology.assignment import Assignment, DomainCount
from controlplane.kueue.topology.balanced import Balancer
from controlplane.kueue.topology.board import Board
from controlplane.kueue.topology.filling import fill
from controlplane.kueue.topology.level_search import Found, LevelSearch
from controlplane.kueue.topology.requests import Parameters
from controlplane.kueue.topology.tree import Domain


@dataclass(frozen=True)
class Placed:
    """The domains of workers and leader; `failure` says why there are none."""

    workers: Assignment | None = None
    leader: Assignment | None = None
    failure: str = ""


def place(search: LevelSearch, *, balanced: bool) -> Placed:
    """Choose domains on a filled board.

    Args:
        search: The board with its figures and the resolved request.
        balanced: Try balanced placement first, where it applies.
    """
    wanted, board = search.wanted, search.board
    even = None
    if balanced and not wanted.required and not wanted.unconstrained:
        even = _balanced(board, wanted)
    found = even or search.run(wanted.level)
    if found.failure:
        return Placed(failure=found.failure)
    domains = _descend(board, wanted, found, together=even is None)
    if not wanted.leaders:
        return Placed(_assignment(board, {each: board.of(each).pods for each in domains}))
    leaders = {each: board.of(each).leaders for each in domains if board.of(each).leaders > 0}
    workers = {each: board.of(each).pods for each in domains if board.of(each).pods > 0}
    return Placed(_assignment(board, workers), _assignment(board, leaders))


def _balanced(board: Board, wanted: Parameters) -> Found | None:
    balancer = Balancer(board, wanted)
    balance = balancer.best()
    placed = balancer.place(balance) if balance.threshold > 0 else None
    return None if placed is None else Found(placed[1], tuple(placed[0]))


def _descend(board: Board, wanted: Parameters, found: Found, *, together: bool) -> list[Domain]:
    """Go down to the lowest level, on each with as few domains as possible.

    Above the level of the slices the domains below all chosen ones are pooled (`together`); from
    there on each domain divides its own pods among its children.
    """
    free = wanted.unconstrained
    domains = fill(
        board, found.domains, wanted.count, wanted.leaders, wanted.size, free, slices=True
    )
    level, lowest = found.level, len(board.tree.levels) - 1
    while together and level < min(lowest, wanted.slice_level):
        pool = board.ordered([child for each in domains for child in each.children], free)
        domains = fill(board, pool, wanted.count, wanted.leaders, wanted.size, free, slices=True)
        level += 1
    while level < lowest:
        size = wanted.size if level < wanted.slice_level else wanted.inner.get(level + 1, 1)
        domains = [child for domain in domains for child in _divide(board, domain, size, free)]
        level += 1
    return domains


def _divide(board: Board, domain: Domain, size: int, unconstrained: bool) -> list[Domain]:
    """Give the pods of a domain to its children in slices of `size`."""
    children = board.ordered(domain.children, unconstrained)
    if size > 1:
        # The slices counted so far were those of the outermost layer.
        for child in children:
            state = board.of(child)
            state.slices = state.pods // size
            state.slices_with_leader = state.pods_with_leader // size
    own = board.of(domain)
    return fill(board, children, own.pods, own.leaders, size, unconstrained, slices=size > 1)


def _assignment(board: Board, counts: Mapping[Domain, int]) -> Assignment:
    """Domains in the order of their values; with single nodes at the bottom those alone name them."""
    first = len(board.tree.levels) - 1 if board.tree.ends_at_nodes else 0
    return Assignment(
        board.tree.levels[first:],
        tuple(
            DomainCount(domain.values[first:], counts[domain])
            for domain in _by_values(list(counts))
            if counts[domain]
        ),
    )


def _by_values(domains: Sequence[Domain]) -> list[Domain]:
    return sorted(domains, key=lambda each: each.values)
