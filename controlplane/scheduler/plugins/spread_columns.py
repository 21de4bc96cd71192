"""PodTopologySpread over columns: the same counts and answers for all nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from controlplane.api.labels import Selector
from controlplane.scheduler.columns import Bools, Columns, Ints, Topology
from controlplane.scheduler.plugins import spread_constraints as sc

if TYPE_CHECKING:
    from controlplane.scheduler.node_info import NodeInfo
    from controlplane.scheduler.snapshot import Snapshot

HOSTNAME = "kubernetes.io/hostname"


def matching(snapshot: Snapshot, columns: Columns, selector: Selector, namespace: str) -> Ints:
    """Matching pods per node."""

    def compute(info: NodeInfo) -> dict[str, int]:
        count = sc.count_matching(info.pods, selector, namespace)
        return {"": count} if count else {}

    kept = columns.kept(snapshot, ("spread", selector, namespace), compute)
    found = kept.arrays.get("")
    return np.zeros(columns.size, np.int64) if found is None else found


def included(
    snapshot: Snapshot, columns: Columns, policies: sc.Policies, constraint: sc.Constraint
) -> Bools | None:
    """Nodes that count for a constraint by the pod's policies; None for all."""
    if policies.includes_all(constraint):
        return None
    affinity, taints = policies.key(constraint)

    def compute(info: NodeInfo) -> bool:
        assert info.node is not None
        return policies.include(constraint, info.node)

    allowed: Bools = (
        columns.node_property(snapshot, ("spread-policy", affinity, taints), compute) != 0
    )
    return allowed


class DomainCounts:
    """Counts of one hard constraint: per domain, and which domains exist."""

    __slots__ = ("minimum", "present", "sums", "topology")

    def __init__(
        self, topology: Topology, amounts: Ints, eligible: Bools, min_domains: int
    ) -> None:
        self.topology = topology
        self.sums = topology.sums(amounts, eligible)
        self.present = topology.sums(np.ones_like(amounts), eligible) > 0
        domains = int(np.count_nonzero(self.present))
        self.minimum = 0
        if domains and domains >= min_domains:
            self.minimum = int(self.sums[self.present].min())

    def as_dict(self) -> dict[str, int]:
        """Value of the topology key -> count."""
        values = list(self.topology.index)
        return {values[i]: int(self.sums[i]) for i in np.flatnonzero(self.present).tolist()}


def all_keys(topologies: Sequence[Topology], size: int) -> Bools:
    """Nodes that have every key."""
    out = np.ones(size, np.bool_)
    for topology in topologies:
        out &= topology.has
    return out


def count_domains(
    snapshot: Snapshot,
    columns: Columns,
    constraints: Sequence[sc.Constraint],
    policies: sc.Policies,
    namespace: str,
) -> list[DomainCounts]:
    """Counts of hard constraints over all eligible nodes."""
    topologies = [columns.topology(snapshot, c.topology_key) for c in constraints]
    everywhere = all_keys(topologies, columns.size)
    out: list[DomainCounts] = []
    for constraint, topology in zip(constraints, topologies):
        allowed = included(snapshot, columns, policies, constraint)
        eligible = everywhere if allowed is None else everywhere & allowed
        amounts = matching(snapshot, columns, constraint.selector, namespace)
        out.append(DomainCounts(topology, amounts, eligible, constraint.min_domains))
    return out


class SoftCounts:
    """Soft constraints over the candidates: ignored rows and weighted counts."""

    __slots__ = ("ignored", "scores")

    def __init__(self, ignored: Bools, scores: Ints) -> None:
        self.ignored = ignored
        self.scores = scores
        """Raw scores of the candidates, in their order."""


def soft_scores(
    snapshot: Snapshot,
    columns: Columns,
    constraints: Sequence[sc.Constraint],
    policies: sc.Policies,
    namespace: str,
    rows: Ints,
    *,
    require_all: bool,
    weight: sc.Weight,
) -> SoftCounts:
    """Raw scores of the nodes in `rows`."""
    topologies = [columns.topology(snapshot, c.topology_key) for c in constraints]
    everywhere = all_keys(topologies, columns.size)
    if not require_all:
        everywhere = np.ones(columns.size, np.bool_)
    ignored = ~everywhere[rows]
    counted = rows[~ignored]
    total = np.zeros(len(rows), np.float64)
    for constraint, topology in zip(constraints, topologies):
        amounts = matching(snapshot, columns, constraint.selector, namespace)
        if constraint.topology_key == HOSTNAME:
            size = len(counted)
            counts = amounts[rows]
        else:
            codes = topology.codes
            domains = np.bincount(codes[counted], minlength=len(topology.index)) > 0
            size = int(np.count_nonzero(domains))
            allowed = included(snapshot, columns, policies, constraint)
            eligible = everywhere if allowed is None else everywhere & allowed
            sums = np.bincount(codes[eligible], amounts[eligible], len(topology.index))
            counts = sums.astype(np.int64)[codes[rows]]
        term = counts.astype(np.float64) * weight(size) + float(constraint.max_skew - 1)
        total = np.where(topology.has[rows], total + term, total)
    whole = np.trunc(total)
    rounded = (whole + (total - whole >= 0.5)).astype(np.int64)
    return SoftCounts(ignored, np.where(ignored, 0, rounded))


def normalize(soft: SoftCounts, raw: Ints) -> Ints:
    """Turn the order round; nodes that were left out get nothing."""
    counted = raw[~soft.ignored]
    high = max(int(counted.max()), 0) if len(counted) else 0
    if high == 0:
        return np.where(soft.ignored, 0, 100)
    low = int(counted.min())
    return np.where(soft.ignored, 0, 100 * (high + low - raw) // high)
