"""PodTopologySpread over columns: the same counts and answers for all nodes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from controlplane.scheduler.columns.columns import (
    Bools,
    Columns,
    DomainTally,
    Ints,
    Keys,
    Topology,
)
from controlplane.scheduler.columns.matching import Matching
from controlplane.scheduler.plugins import spread_constraints as sc

if TYPE_CHECKING:
    from controlplane.scheduler.state.node_info import NodeInfo

HOSTNAME = "kubernetes.io/hostname"
_NO_KEYS = Keys(())


def included(columns: Columns, policies: sc.Policies, constraint: sc.Constraint) -> Bools | None:
    """Nodes that count for a constraint by the pod's policies; None for all."""
    if policies.includes_all(constraint):
        return None
    affinity, taints = policies.key(constraint)

    def compute(info: NodeInfo) -> bool:
        assert info.node is not None
        return policies.include(constraint, info.node)

    allowed: Bools = columns.node_property(("spread-policy", affinity, taints), compute) != 0
    return allowed


class DomainCounts:
    """Counts of one hard constraint: per domain, and which domains exist."""

    __slots__ = ("_tally", "all_have", "minimum", "topology")

    def __init__(
        self, topology: Topology, tally: DomainTally, min_domains: int, *, all_have: bool
    ) -> None:
        self.topology = topology
        self.all_have = all_have
        """Every node has the topology key."""
        self._tally = tally
        self.minimum = 0
        if tally.domains and tally.domains >= min_domains:
            sums = tally.sums
            if tally.domains < len(sums):
                sums = sums[tally.present]
            self.minimum = int(sums.min())

    @property
    def sums(self) -> Ints:
        """Matching pods per domain."""
        return self._tally.sums

    def as_dict(self) -> dict[str, int]:
        """Value of the topology key -> count."""
        values = list(self.topology.index)
        sums = self._tally.sums
        return {values[i]: int(sums[i]) for i in np.flatnonzero(self._tally.present).tolist()}


def tally(
    columns: Columns,
    constraint: sc.Constraint,
    policies: sc.Policies,
    namespace: str,
    keys: Keys,
    matching: Matching,
) -> DomainTally:
    """Matching pods per domain, over nodes that have all `keys` and count by the pod's policies."""
    policy = None if policies.includes_all(constraint) else policies.key(constraint)

    def eligible() -> Bools:
        everywhere, _ = columns.everywhere(keys)
        allowed = included(columns, policies, constraint)
        return everywhere if allowed is None else everywhere & allowed

    key = (constraint.topology_key, keys, constraint.selector, namespace, policy)
    topology = columns.topology(constraint.topology_key)
    return columns.tally(key, topology, matching.amounts, eligible, matching)


def count_domains(
    columns: Columns,
    constraints: Sequence[sc.Constraint],
    policies: sc.Policies,
    namespace: str,
) -> list[DomainCounts]:
    """Counts of hard constraints over all eligible nodes."""
    keys = Keys(tuple(constraint.topology_key for constraint in constraints))
    out: list[DomainCounts] = []
    for constraint in constraints:
        matching = columns.matching(constraint.selector, namespace)
        counts = tally(columns, constraint, policies, namespace, keys, matching)
        topology = columns.topology(constraint.topology_key)
        all_have = bool(topology.has.all())
        out.append(DomainCounts(topology, counts, constraint.min_domains, all_have=all_have))
    return out


class SoftCounts:
    """Soft constraints over the candidates: ignored rows and weighted counts."""

    __slots__ = ("_rows", "ignored", "scores")

    def __init__(self, rows: Ints, ignored: Bools | None, scores: Ints) -> None:
        self._rows = rows
        self.ignored = ignored
        """Candidates that lack a topology key; None when none does."""
        self.scores = scores
        """Raw scores of the candidates, in their order."""

    def of(self, row: int) -> int:
        """The raw score of one candidate."""
        return int(self.scores[np.flatnonzero(self._rows == row)[0]])


def soft_scores(
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
    keys = Keys(tuple(constraint.topology_key for constraint in constraints))
    everywhere, all_have = columns.everywhere(keys)
    left_out = require_all and not all_have
    ignored: Bools | None = ~everywhere[rows] if left_out else None
    counted = rows if ignored is None else rows[~ignored]
    total = np.zeros(len(rows), np.float64)
    for constraint in constraints:
        topology = columns.topology(constraint.topology_key)
        matching = columns.matching(constraint.selector, namespace)
        base = float(constraint.max_skew - 1)
        if constraint.topology_key == HOSTNAME:
            term = matching.amounts[rows] * weight(len(counted)) + base
        else:
            codes = topology.codes
            size = int(np.count_nonzero(np.bincount(codes[counted], minlength=len(topology.index))))
            needed = keys if require_all else _NO_KEYS
            sums = tally(columns, constraint, policies, namespace, needed, matching).sums
            term = (sums * weight(size) + base)[codes[rows]]
        if all_have:
            total += term
        else:
            total = np.where(topology.has[rows], total + term, total)
    whole = np.trunc(total)
    rounded = (whole + (total - whole >= 0.5)).astype(np.int64)
    if ignored is None:
        return SoftCounts(rows, None, rounded)
    return SoftCounts(rows, ignored, np.where(ignored, 0, rounded))


def normalize(soft: SoftCounts, raw: Ints) -> Ints:
    """Turn the order round; nodes that were left out get nothing."""
    ignored = soft.ignored
    counted = raw if ignored is None else raw[~ignored]
    high = max(int(counted.max()), 0) if len(counted) else 0
    if high == 0:
        return np.full(len(raw), 100) if ignored is None else np.where(ignored, 0, 100)
    points = 100 * (high + int(counted.min()) - raw) // high
    return points if ignored is None else np.where(ignored, 0, points)
