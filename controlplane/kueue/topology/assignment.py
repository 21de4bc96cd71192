"""Pods per topology domain, decoded.

Follows `pkg/util/tas/tas_assignment.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.api.tree import Tree
from controlplane.kueue.amounts import PODS, Requests, clamp, scaled_up
from controlplane.kueue.workload.domains import domains_of

HOSTNAME: Final = "kubernetes.io/hostname"


@dataclass(frozen=True)
class DomainCount:
    """Pods in one domain, which its values at the assignment's levels name."""

    values: tuple[str, ...]
    count: int

    @property
    def id(self) -> str:
        """The domain's identity."""
        return domain_id(self.values)


@dataclass(frozen=True)
class Assignment:
    """The domains of a pod set; `levels` are node labels, from the widest down."""

    levels: tuple[str, ...]
    domains: tuple[DomainCount, ...]

    def pods(self) -> int:
        """The pods of all domains."""
        return sum(each.count for each in self.domains)

    def cut_to(self, count: int) -> Assignment:
        """The same assignment with the last pods taken off until `count` are left."""
        kept: list[DomainCount] = []
        for each in self.domains:
            if count <= 0:
                break
            kept.append(DomainCount(each.values, min(each.count, count)))
            count -= each.count
        return Assignment(self.levels, tuple(kept))

    def usage(self, single_pod: Requests) -> dict[str, dict[str, int]]:
        """The requests, pods included, by domain."""
        return {
            each.id: with_pods(scaled_up(single_pod, each.count), each.count)
            for each in self.domains
        }


def domain_id(values: tuple[str, ...]) -> str:
    """The identity of a domain within its level."""
    return ",".join(values)


def assignment_of(tree: Tree) -> Assignment:
    """Decode the `topologyAssignment` of a pod set."""
    return Assignment(
        tuple(tree.get("levels") or ()),
        tuple(DomainCount(values, count) for values, count in domains_of(tree)),
    )


def ends_at_nodes(levels: tuple[str, ...]) -> bool:
    """Return whether the lowest level is the single node."""
    return bool(levels) and levels[-1] == HOSTNAME


def with_pods(requests: Mapping[str, int], count: int) -> dict[str, int]:
    """The requests and `count` of the resource pods."""
    return {**requests, PODS: clamp(requests.get(PODS, 0) + count)}


def add_to(amounts: dict[str, int], other: Mapping[str, int]) -> None:
    """Add in place."""
    for name, value in other.items():
        amounts[name] = clamp(amounts.get(name, 0) + value)


def take_from(amounts: dict[str, int], other: Mapping[str, int]) -> None:
    """Subtract in place; amounts may become negative."""
    for name, value in other.items():
        amounts[name] = clamp(amounts.get(name, 0) - value)
