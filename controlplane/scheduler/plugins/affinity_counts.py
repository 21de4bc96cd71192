"""Counting pods for InterPodAffinity, one pod at a time.

Upstream: `pkg/scheduler/framework/plugins/interpodaffinity/{filtering,scoring}.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from controlplane.scheduler.state.affinity_terms import AffinityTerm, WeightedTerm

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.state.pod_info import PodInfo

NO_LABELS: Mapping[str, str] = {}

Pair = tuple[str, str]
"""Topology key and value."""
Counts = dict[Pair, int]
Weights = dict[str, dict[str, int]]
"""Topology key -> value -> sum of weights."""


def bump(counts: Counts, labels: Mapping[str, str], key: str, by: int) -> None:
    """Count in the domain of a node with these labels; an entry that reaches 0 goes."""
    value = labels.get(key)
    if value is None:
        return
    total = counts.get((key, value), 0) + by
    if total:
        counts[key, value] = total
    else:
        counts.pop((key, value), None)


def matches_all(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Return whether a pod matches every one of some terms; an empty list matches none.

    These are terms of the incoming pod, whose namespace selectors were expanded, so no labels of
    the other pod's namespace are passed.
    """
    return bool(terms) and all(term.matches(pod, NO_LABELS) for term in terms)


def weigh(
    topology: Weights,
    terms: Iterable[WeightedTerm],
    pod: Pod,
    namespace_labels: Mapping[str, str],
    labels: Mapping[str, str],
    sign: int,
) -> None:
    """Add the weights of the terms that mean `pod` to the domains of a node."""
    for each in terms:
        value = labels.get(each.term.topology_key)
        if value is not None and each.term.matches(pod, namespace_labels):
            values = topology.setdefault(each.term.topology_key, {})
            values[value] = values.get(value, 0) + sign * each.weight


def weigh_pod(
    topology: Weights,
    other: PodInfo,
    pod: Pod,
    namespace_labels: Mapping[str, str],
    labels: Mapping[str, str],
    near_terms: Sequence[WeightedTerm],
    far_terms: Sequence[WeightedTerm],
    hard_weight: int,
) -> None:
    """Return the weight that an existing pod, on a node with these labels, adds for the incoming one."""
    weigh(topology, near_terms, other.pod, NO_LABELS, labels, 1)
    weigh(topology, far_terms, other.pod, NO_LABELS, labels, -1)
    if not other.has_affinity:
        return
    terms = other.terms
    if hard_weight > 0:
        required = [WeightedTerm(term, hard_weight) for term in terms.required_affinity]
        weigh(topology, required, pod, namespace_labels, labels, 1)
    weigh(topology, terms.preferred_affinity, pod, namespace_labels, labels, 1)
    weigh(topology, terms.preferred_anti_affinity, pod, namespace_labels, labels, -1)
