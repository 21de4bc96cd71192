"""Merging the hints of several providers into one. Upstream: pkg/kubelet/cm/topologymanager/policy*.go.

Upstream folds a comparison over the whole cross product of all lists. That comparison is a total
order of (preferred, mask), so only the distinct outcomes matter, and those are found list by list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.cm.topologymanager.hints import Hints, TopologyHint, mask_of, nodes_of
from controlplane.kubelet.cm.topologymanager.options import TopologyOptions
from controlplane.kubelet.machine import NUMANode

NONE: Final = "none"
BEST_EFFORT: Final = "best-effort"
RESTRICTED: Final = "restricted"
SINGLE_NUMA_NODE: Final = "single-numa-node"
POLICIES: Final = (BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)

_ANY: Final = (TopologyHint(None, True),)
_IMPOSSIBLE: Final = (TopologyHint(None, False),)

HintList = Sequence[TopologyHint]
Rank = tuple[float, ...]


@attrs.frozen
class NUMAInfo:
    """The NUMA nodes of a machine, ascending, and the distances of each to the others."""

    nodes: tuple[int, ...]
    distances: dict[int, tuple[int, ...]]

    @classmethod
    def of(cls, nodes: Iterable[NUMANode], options: TopologyOptions) -> NUMAInfo:
        """Return the NUMA nodes of a machine. Raises ManagerError when distances are wanted and there are none."""
        distances = {}
        for node in nodes:
            if options.prefer_closest and not node.distances:
                raise ManagerError(
                    "cannot discover NUMA topology: error getting NUMA distances from cadvisor"
                )
            distances[node.id] = node.distances
        return cls(tuple(sorted(distances)), distances)

    @property
    def all_nodes(self) -> int:
        """The mask of all of them."""
        return mask_of(self.nodes)

    def average_distance(self, mask: int) -> float:
        """Over all ordered pairs, a node with itself included; of nodes without distances 0."""
        nodes = nodes_of(mask)
        total = sum(
            row[j]
            for row in (self.distances.get(i, ()) for i in nodes)
            for j in nodes
            if j < len(row)
        )
        return total / len(nodes) ** 2 if nodes else 0.0


@attrs.frozen
class Policy:
    """A policy with alignment: how hints are merged and what is admitted."""

    name: str
    numa: NUMAInfo
    options: TopologyOptions

    @property
    def guarantees_alignment(self) -> bool:
        """Return whether everything admitted comes from one NUMA node."""
        return self.name == SINGLE_NUMA_NODE

    def merge(self, given: Iterable[Hints]) -> tuple[TopologyHint, bool]:
        """The best hint for what all providers said, and whether that is good enough."""
        lists = hint_lists(given)
        if self.name == SINGLE_NUMA_NODE:
            lists = [
                [
                    hint
                    for hint in hints
                    if hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
                ]
                for hints in lists
            ]
        best = self._best(lists)
        if self.name == SINGLE_NUMA_NODE and best.mask == self.numa.all_nodes:
            best = TopologyHint(None, best.preferred)
        return best, best.preferred or self.name == BEST_EFFORT

    def _best(self, lists: Sequence[HintList]) -> TopologyHint:
        everywhere = self.numa.all_nodes
        if not all(lists):
            return TopologyHint(everywhere, False)
        rank = self._rank()
        preferred = [mask for mask in _agreed(lists, everywhere) if mask]
        if preferred:
            return TopologyHint(min(preferred, key=rank), True)
        merged = _intersections(lists, everywhere)
        if not merged:
            return TopologyHint(everywhere, False)
        target = max((_narrowest(hints) for hints in lists), default=0)

        def worth(mask: int) -> Rank:
            count = mask.bit_count()
            if count == target:
                return (0, *rank(mask))
            return (1, -count, *rank(mask)) if count < target else (2, *rank(mask))

        return TopologyHint(min(merged, key=worth), False)

    def _rank(self) -> Callable[[int], Rank]:
        """Narrower masks first; of the same width the closer ones, if asked for, then lower nodes."""
        if self.options.prefer_closest and self.name != SINGLE_NUMA_NODE:
            average = self.numa.average_distance
            return lambda mask: (mask.bit_count(), average(mask), mask)
        return lambda mask: (mask.bit_count(), mask)


def hint_lists(given: Iterable[Hints]) -> list[HintList]:
    """Return one list for each resource of each provider; a provider without preference accepts any hint.

    Resources of one provider come in no order upstream; here by name.
    """
    lists: list[HintList] = []
    for hints in given:
        if not hints:
            lists.append(_ANY)
            continue
        for resource in sorted(hints):
            offered = hints[resource]
            if offered is None:
                lists.append(_ANY)
            else:
                lists.append(offered or _IMPOSSIBLE)
    return lists


def _agreed(lists: Sequence[HintList], everywhere: int) -> list[int]:
    """Masks that every list has as a preferred hint; a list pleased with anything agrees with all."""
    likes = [dict.fromkeys(hint.mask for hint in hints if hint.preferred) for hints in lists]
    choices: dict[int | None, None] = {}
    for liked in likes or [dict.fromkeys([None])]:
        choices.update(liked)
    return [
        everywhere if mask is None else mask & everywhere
        for mask in choices
        if all(mask in liked or None in liked for liked in likes)
    ]


def _intersections(lists: Sequence[HintList], everywhere: int) -> list[int]:
    """Every mask that some choice of one hint per list has in common, without the empty one."""
    found = {everywhere: None}
    for hints in lists:
        masks = dict.fromkeys(everywhere if hint.mask is None else hint.mask for hint in hints)
        found = dict.fromkeys([one & mask for mask in masks for one in found])
        found.pop(0, None)
    return list(found)


def _narrowest(hints: HintList) -> int:
    """Return the number of nodes in the narrowest mask of a list; 0 without masks."""
    return min((hint.mask.bit_count() for hint in hints if hint.mask is not None), default=0)
