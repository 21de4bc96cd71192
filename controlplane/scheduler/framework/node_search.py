"""Number of nodes that a search evaluates, and the choice among several best ones.

Upstream: `pkg/scheduler/schedule_one.go` (numFeasibleNodesToFind, selectHost).
"""

from __future__ import annotations

from collections.abc import Sequence

MIN_FEASIBLE_NODES_TO_FIND = 100
MIN_FEASIBLE_NODES_PERCENTAGE = 5


def num_feasible_nodes_to_find(percentage: int, num_all_nodes: int) -> int:
    """Return the number of feasible nodes that ends the search; `percentage` 0 adapts to the cluster's size."""
    if num_all_nodes < MIN_FEASIBLE_NODES_TO_FIND:
        return num_all_nodes
    if percentage == 0:
        percentage = max(50 - num_all_nodes // 125, MIN_FEASIBLE_NODES_PERCENTAGE)
    return max(num_all_nodes * percentage // 100, MIN_FEASIBLE_NODES_TO_FIND)


class NodeHeap:
    """Nodes with total scores as a Go heap: the layout decides between equal totals."""

    __slots__ = ("_names", "_totals")

    def __init__(self, names: Sequence[str], totals: Sequence[int]) -> None:
        self._names = list(names)
        self._totals = list(totals)
        for i in range(len(self._names) // 2 - 1, -1, -1):
            self._down(i, len(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def pop(self) -> str:
        """Take the best node. Raises IndexError when empty."""
        names, totals = self._names, self._totals
        last = len(names) - 1
        names[0], names[last] = names[last], names[0]
        totals[0], totals[last] = totals[last], totals[0]
        self._down(0, last)
        totals.pop()
        return names.pop()

    def _down(self, i: int, size: int) -> None:
        names, totals = self._names, self._totals
        while (child := 2 * i + 1) < size:
            right = child + 1
            if right < size and totals[right] > totals[child]:
                child = right
            if totals[child] <= totals[i]:
                break
            names[i], names[child] = names[child], names[i]
            totals[i], totals[child] = totals[child], totals[i]
            i = child


_preorder_ranks: dict[int, list[int]] = {}


def best_index(totals: Sequence[int]) -> int:
    """Index of the entry that would be the root of the heap made from `totals`.

    Heapify lets a parent keep its place on a tie, and a left child go before a right one, so the
    root is, of all entries with the highest total, the first in preorder of the heap's tree.
    """
    best = max(totals)
    size = len(totals)
    if totals[0] == best:
        return 0
    ranks = preorder_ranks(size)
    return min((i for i in range(size) if totals[i] == best), key=ranks.__getitem__)


def preorder_ranks(size: int) -> list[int]:
    """Position of each index of a binary heap of `size` entries in preorder."""
    ranks = _preorder_ranks.get(size)
    if ranks is None:
        ranks = [0] * size
        stack = [0] if size else []
        rank = 0
        while stack:
            index = stack.pop()
            ranks[index] = rank
            rank += 1
            left = 2 * index + 1
            if left + 1 < size:
                stack.append(left + 1)
            if left < size:
                stack.append(left)
        if len(_preorder_ranks) > 64:
            _preorder_ranks.clear()
        _preorder_ranks[size] = ranks
    return ranks
