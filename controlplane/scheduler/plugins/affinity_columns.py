"""InterPodAffinity over columns: the same counts and answers for all nodes at once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from controlplane.scheduler.columns.columns import Bools, Columns, Ints, SparseRows
from controlplane.scheduler.plugins import affinity_counts as ac
from controlplane.scheduler.state.affinity_terms import AffinityTerm, PodTerms, WeightedTerm

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.state.node_info import NodeInfo

Sums = dict[str, Ints]
"""Topology key -> sum per domain."""


def identity(pod: Pod, namespace_labels: Mapping[str, str]) -> Hashable:
    """Return the parts of a pod that the terms of other pods can see."""
    labels = tuple(sorted(pod.labels.items()))
    return pod.namespace, labels, tuple(sorted(namespace_labels.items()))


def _sums(columns: Columns, key: Hashable, rows: SparseRows) -> Sums:
    """`key` is that of the rows."""
    return {domain: _sum(columns, key, domain, amounts) for domain, amounts in rows.arrays.items()}


def _sum(columns: Columns, key: Hashable, topology_key: str, amounts: Ints) -> Ints:
    topology = columns.topology(topology_key)
    found = columns.tally((key, topology_key), topology, amounts, lambda: topology.has)
    return found.sums


def existing_anti_affinity(columns: Columns, pod: Pod, namespace_labels: Mapping[str, str]) -> Sums:
    """Terms of existing pods that keep `pod` away, per domain."""

    def compute(info: NodeInfo) -> dict[str, int]:
        out: dict[str, int] = {}
        for other in info.pods_with_required_anti_affinity:
            for term in other.terms.required_anti_affinity:
                if term.matches(pod, namespace_labels):
                    out[term.topology_key] = out.get(term.topology_key, 0) + 1
        return out

    key = ("existing-anti", identity(pod, namespace_labels))
    return _sums(columns, key, columns.kept(key, compute))


def matching_all(columns: Columns, terms: Sequence[AffinityTerm]) -> Sums:
    """Pods that match all terms, per domain of each term's key."""
    if not terms:
        return {}

    def compute(info: NodeInfo) -> dict[str, int]:
        count = sum(1 for other in info.pods if ac.matches_all(terms, other.pod))
        return {"": count} if count else {}

    key = ("affinity", tuple(terms))
    amounts = columns.kept(key, compute).arrays.get("")
    out: Sums = {}
    for term in terms:
        if amounts is not None:
            sums = _sum(columns, key, term.topology_key, amounts)
            before = out.get(term.topology_key)
            out[term.topology_key] = sums if before is None else before + sums
    return out


def matching_each(columns: Columns, terms: Sequence[AffinityTerm]) -> Sums:
    """Pods that match a term, summed over the terms, per domain of the term's key."""
    if not terms:
        return {}

    def compute(info: NodeInfo) -> dict[str, int]:
        out: dict[str, int] = {}
        for other in info.pods:
            for term in terms:
                if term.matches(other.pod, ac.NO_LABELS):
                    out[term.topology_key] = out.get(term.topology_key, 0) + 1
        return out

    key = ("anti-affinity", tuple(terms))
    return _sums(columns, key, columns.kept(key, compute))


def as_counts(columns: Columns, sums: Sums) -> ac.Counts:
    """Non-zero sums by (key, value)."""
    out: ac.Counts = {}
    for key, amounts in sums.items():
        values = list(columns.topology(key).index)
        for code in np.flatnonzero(amounts).tolist():
            out[key, values[code]] = int(amounts[code])
    return out


def _domains_hit(columns: Columns, key: str, sums: Sums) -> Bools:
    """Nodes whose domain has a positive sum."""
    topology = columns.topology(key)
    amounts = sums.get(key)
    if amounts is None:
        return np.zeros(columns.size, np.bool_)
    # A node that changed after the sums were taken may lie in a domain they do not know.
    hit: Bools = topology.has & (amounts > 0)[topology.codes]
    return hit


def near(columns: Columns, terms: PodTerms, sums: Sums, *, matches_itself: bool) -> Bools | None:
    """Nodes that satisfy the pod's own affinity; None for all."""
    if not terms.required_affinity:
        return None
    keyed = np.ones(columns.size, np.bool_)
    there = np.ones(columns.size, np.bool_)
    for term in terms.required_affinity:
        keyed &= columns.topology(term.topology_key).has
        there &= _domains_hit(columns, term.topology_key, sums)
    if matches_itself and not any(amounts.any() for amounts in sums.values()):
        return keyed
    return keyed & there


def apart(columns: Columns, keys: Sequence[str], sums: Sums) -> Bools | None:
    """Nodes of which no domain is hit; None for all."""
    out: Bools | None = None
    for key in keys:
        if key in sums and sums[key].any():
            free = ~_domains_hit(columns, key, sums)
            out = free if out is None else out & free
    return out


def weights(
    columns: Columns,
    pod: Pod,
    namespace_labels: Mapping[str, str],
    near_terms: Sequence[WeightedTerm],
    far_terms: Sequence[WeightedTerm],
    hard_weight: int,
) -> Sums | None:
    """Weights per domain of the preferred terms of both sides; None when there are none."""
    wishes = bool(near_terms or far_terms)

    def compute(info: NodeInfo) -> dict[str, int]:
        assert info.node is not None
        labels = info.node.metadata.labels
        topology: dict[str, dict[str, int]] = {}
        for other in info.pods if wishes else info.pods_with_affinity:
            ac.weigh_pod(
                topology, other, pod, namespace_labels, labels, near_terms, far_terms, hard_weight
            )
        return {key: sum(values.values()) for key, values in topology.items()}

    key = (
        "preferred",
        identity(pod, namespace_labels),
        tuple(near_terms),
        tuple(far_terms),
        hard_weight,
    )
    rows = columns.kept(key, compute)
    if not rows.touched.any():
        return None
    return _sums(columns, key, rows)


def scores(columns: Columns, sums: Sums, rows: Ints) -> Ints:
    """Sum of the weights of each node's domains."""
    total: Ints = np.zeros(len(rows), np.int64)
    for key, amounts in sums.items():
        topology = columns.topology(key)
        total += np.where(topology.has[rows], amounts[topology.codes[rows]], 0)
    return total


def normalize(raw: Ints) -> Ints:
    """From the lowest, 0, to the highest, 100."""
    low = raw.min()
    span = raw.max() - low
    if span <= 0:
        return raw * 0
    scaled: Ints = (100.0 * ((raw - low).astype(np.float64) / float(span))).astype(np.int64)
    return scaled
