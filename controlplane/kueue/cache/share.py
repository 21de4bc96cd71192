"""Dominant resource share: how much a node borrows of what its cohort could lend.

Follows `pkg/cache/scheduler/fair_sharing.go`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from controlplane.api.quantity import parse
from controlplane.kueue.amounts import UNLIMITED, FlavorResource, add, sub
from controlplane.kueue.cache.quota import Node

DEFAULT_WEIGHT: Final = 1.0


@dataclass(frozen=True)
class Share:
    """Borrowed per thousand of the lendable amount for the dominant resource, and the weight."""

    weight: float = DEFAULT_WEIGHT
    ratio: float = 0.0
    resource: str = ""
    borrowing: bool = False
    borrowed: tuple[FlavorResource, ...] = ()

    def zero(self) -> bool:
        """Return whether nothing lendable is borrowed."""
        return self.ratio == 0

    def borrows_without_weight(self) -> bool:
        """Return whether a node of weight 0 borrows: its share counts as infinite."""
        return self.weight == 0 and not self.zero()

    def precise(self) -> float:
        """The share by weight."""
        if self.zero():
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    def rounded(self) -> int:
        """The share as a status has it."""
        return UNLIMITED if self.borrows_without_weight() else math.ceil(self.precise())

    def borrows_any(self, requested: Mapping[FlavorResource, int]) -> bool:
        """Return whether something requested is borrowed."""
        return any(requested.get(pair, 0) > 0 for pair in self.borrowed)

    def sort_key(self) -> tuple[bool, float]:
        """The order of shares."""
        zero = self.borrows_without_weight()
        return zero, self.ratio if zero else self.precise()


LEAST: Final = Share(ratio=-1.0)
"""Less than every share of a node."""


def compare(a: Share, b: Share) -> int:
    """-1, 0 or 1."""
    left, right = a.sort_key(), b.sort_key()
    return (left > right) - (left < right)


def dominant_share(node: Node) -> Share:
    """The share of a cohort or cluster queue; a root has none."""
    if node.parent is None:
        return Share(node.fair_weight)
    borrowing: dict[str, int] = {}
    borrowed = []
    for pair, quota in node.subtree.items():
        amount = sub(node.usage.get(pair, 0), quota)
        if amount > 0:
            borrowing[pair.resource] = add(borrowing.get(pair.resource, 0), amount)
            borrowed.append(pair)
    if not borrowing:
        return Share(node.fair_weight)
    lendable = _lendable(node.parent)
    ratio, dominant = 0.0, ""
    for resource, amount in borrowing.items():
        total = lendable.get(resource, 0)
        if total > 0:
            found = float(amount) * 1000.0 / float(total)
            if found > ratio or (found == ratio and resource < dominant):
                ratio, dominant = found, resource
    return Share(node.fair_weight, ratio, dominant, True, tuple(borrowed))


def _lendable(node: Node) -> dict[str, int]:
    root = node
    while root.parent is not None:
        root = root.parent
    total: dict[str, int] = {}
    for pair in root.subtree:
        total[pair.resource] = add(total.get(pair.resource, 0), node.potential(pair))
    return total


def fair_weight(fair_sharing: Mapping[str, Any] | None) -> float:
    """The weight of `spec.fairSharing`."""
    text = (fair_sharing or {}).get("weight")
    if text is None:
        return DEFAULT_WEIGHT
    mantissa, exponent = parse(str(text)).normal()
    return float(mantissa * 10**exponent) if exponent >= 0 else mantissa / 10**-exponent
