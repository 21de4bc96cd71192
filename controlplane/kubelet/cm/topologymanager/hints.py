"""Hints: which NUMA nodes could give a resource, and whether that would be as good as it gets.

Upstream: pkg/kubelet/cm/topologymanager (TopologyHint, bitmask). A mask is an integer whose bits are
NUMA nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final, NamedTuple


class TopologyHint(NamedTuple):
    """`mask` None means any NUMA node."""

    mask: int | None = None
    preferred: bool = False


NO_HINT: Final = TopologyHint()
"""The hint of a container for which nothing was decided."""

Hints = Mapping[str, Sequence[TopologyHint] | None] | None
"""By resource: None is no preference, an empty list is impossible."""


def mask_of(nodes: Iterable[int]) -> int:
    """The mask of some NUMA nodes."""
    mask = 0
    for node in nodes:
        mask |= 1 << node
    return mask


def nodes_of(mask: int) -> tuple[int, ...]:
    """The NUMA nodes of a mask, ascending."""
    return tuple(node for node in range(mask.bit_length()) if mask >> node & 1)


class Choice(NamedTuple):
    """Some NUMA nodes: their mask, how many, and the two hints that name them.

    `first` is the position of the lowest node among all, `rest` that of the choice without it (-1:
    nothing is left), so that sums over nodes can be built one from the other.
    """

    mask: int
    size: int
    first: int
    rest: int
    plain: TopologyHint
    preferred: TopologyHint


@lru_cache(maxsize=64)
def choices(nodes: tuple[int, ...]) -> tuple[Choice, ...]:
    """Every non-empty choice of NUMA nodes: small ones first, then in order."""
    position: dict[int, int] = {0: -1}
    found: list[Choice] = []
    for size in range(1, len(nodes) + 1):
        for chosen in combinations(range(len(nodes)), size):
            mask = mask_of(nodes[i] for i in chosen)
            rest = position[mask & ~(1 << nodes[chosen[0]])]
            position[mask] = len(found)
            found.append(
                Choice(
                    mask, size, chosen[0], rest, TopologyHint(mask, False), TopologyHint(mask, True)
                )
            )
    return tuple(found)


def narrower(mask: int, other: int) -> bool:
    """Fewer nodes, or as many of which the first that differs is lower."""
    count, other_count = mask.bit_count(), other.bit_count()
    return mask < other if count == other_count else count < other_count
