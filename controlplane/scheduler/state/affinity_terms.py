"""Pod affinity terms, compiled.

Upstream: kube-scheduler `framework/types.go` (AffinityTerm).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from controlplane.api.labels import Selector, SelectorError, from_label_selector
from controlplane.api.validation import aggregate
from controlplane.sharing.memory import IdentityCache

if TYPE_CHECKING:
    from controlplane.api.constraints import Affinity, PodAffinityTerm, WeightedPodAffinityTerm
    from controlplane.api.pod import Pod


@attrs.frozen
class AffinityTerm:
    """A term: namespaces, pods in them, and the topology in which they count."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the term selects `pod`, whose namespace has these labels."""
        metadata = pod.metadata
        if metadata.namespace in self.namespaces or self.namespace_selector.matches(
            namespace_labels
        ):
            return self.selector.matches(metadata.labels)
        return False


@attrs.frozen
class WeightedTerm:
    """A preferred term."""

    term: AffinityTerm
    weight: int


@attrs.frozen
class PodTerms:
    """All affinity terms of a pod. `error` is why some could not be compiled."""

    required_affinity: tuple[AffinityTerm, ...] = ()
    required_anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedTerm, ...] = ()
    error: str = ""


_NONE = PodTerms()


def compile_term(pod: Pod, term: PodAffinityTerm) -> AffinityTerm:
    """Compile a term of `pod`. Raises SelectorError."""
    namespaces = frozenset(term.namespaces)
    if not term.namespaces and term.namespace_selector is None:
        namespaces = frozenset((pod.namespace,))
    return AffinityTerm(
        namespaces,
        from_label_selector(term.label_selector),
        term.topology_key,
        from_label_selector(term.namespace_selector),
    )


def _weighted(pod: Pod, terms: tuple[WeightedPodAffinityTerm, ...]) -> tuple[WeightedTerm, ...]:
    return tuple(WeightedTerm(compile_term(pod, t.pod_affinity_term), t.weight) for t in terms)


def parse_required_terms(pod: Pod) -> PodTerms:
    """Compile the required terms only. Raises SelectorError."""
    affinity = pod.spec.affinity
    if affinity is None:
        return _NONE
    near, far = (
        () if each is None else each.required_during_scheduling_ignored_during_execution
        for each in (affinity.pod_affinity, affinity.pod_anti_affinity)
    )
    return PodTerms(
        tuple(compile_term(pod, term) for term in near),
        tuple(compile_term(pod, term) for term in far),
    )


def parse_terms(pod: Pod) -> PodTerms:
    """Compile every term; lists that fail are empty and their errors are kept."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return _NONE
    known = _parsed.get(affinity, pod.namespace)
    return known or _parsed.put(affinity, _parse(pod, affinity), pod.namespace)


_parsed: IdentityCache[PodTerms] = IdentityCache("affinity terms of a pod")
"""By namespace: pods of one template share their affinity."""


def _parse(pod: Pod, affinity: Affinity) -> PodTerms:
    pair = (affinity.pod_affinity, affinity.pod_anti_affinity)
    errors: list[str] = []
    required: list[tuple[AffinityTerm, ...]] = []
    for name, each in zip(("requiredAffinityTerms", "requiredAntiAffinityTerms"), pair):
        terms = () if each is None else each.required_during_scheduling_ignored_during_execution
        try:
            required.append(tuple(compile_term(pod, term) for term in terms))
        except SelectorError as broken:
            required.append(())
            errors.append(f"{name}: {broken}")
    preferred: list[tuple[WeightedTerm, ...]] = []
    for name, each in zip(("preferredAffinityTerms", "preferredAntiAffinityTerms"), pair):
        wanted = () if each is None else each.preferred_during_scheduling_ignored_during_execution
        try:
            preferred.append(_weighted(pod, wanted))
        except SelectorError as broken:
            preferred.append(())
            errors.append(f"{name}: {broken}")
    message = aggregate(errors) if errors else ""
    return PodTerms(required[0], required[1], preferred[0], preferred[1], message)
