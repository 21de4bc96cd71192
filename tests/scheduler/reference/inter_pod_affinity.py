"""InterPodAffinity, counted node by node."""

from __future__ import annotations

import attrs

from controlplane.scheduler.framework.interface import SKIP, error, unresolvable
from controlplane.scheduler.plugins.affinity_counts import (
    NO_LABELS,
    bump,
    matches_all,
    weigh_pod,
)
from controlplane.scheduler.plugins.inter_pod_affinity import (
    FILTER_KEY,
    SCORE_KEY,
    FilterState,
    InterPodAffinity,
)
from controlplane.scheduler.state.affinity_terms import parse_terms


class InterPodAffinityByNode(InterPodAffinity):
    def pre_filter(self, state, pod, nodes):
        """Count pods that matter per topology domain."""
        terms = parse_terms(pod)
        if terms.error:
            return None, unresolvable(f"parsing pod: {terms.error}")
        if terms.required_affinity or terms.required_anti_affinity:
            terms = attrs.evolve(
                terms,
                required_affinity=tuple(map(self.expand, terms.required_affinity)),
                required_anti_affinity=tuple(map(self.expand, terms.required_anti_affinity)),
            )
        snapshot = self._handle.snapshot
        own = bool(terms.required_affinity or terms.required_anti_affinity)
        if not own and not snapshot.any_required_anti_affinity:
            return None, SKIP
        itself = matches_all(terms.required_affinity, pod)
        kept = FilterState(terms, itself, self._namespace_labels(pod))
        for info in snapshot.have_pods_with_required_anti_affinity:
            assert info.node is not None
            labels = info.node.metadata.labels
            for other in info.pods_with_required_anti_affinity:
                for term in other.terms.required_anti_affinity:
                    if term.matches(pod, kept.namespace_labels):
                        bump(kept.existing_anti, labels, term.topology_key, 1)
        if own:
            self._count_own(kept, nodes)
        elif not kept.existing_anti:
            return None, SKIP
        state.write(FILTER_KEY, kept)
        return None, None

    def _count_own(self, kept, nodes):
        affinity, anti = kept.terms.required_affinity, kept.terms.required_anti_affinity
        for info in nodes:
            assert info.node is not None
            labels = info.node.metadata.labels
            for other in info.pods:
                if matches_all(affinity, other.pod):
                    for term in affinity:
                        bump(kept.affinity, labels, term.topology_key, 1)
                for term in anti:
                    if term.matches(other.pod, NO_LABELS):
                        bump(kept.anti, labels, term.topology_key, 1)

    def pre_score(self, state, pod, nodes):
        """Add up weights per topology domain."""
        snapshot = self._handle.snapshot
        if not snapshot.node_info_list:
            return SKIP
        affinity = pod.spec.affinity
        near = None if affinity is None else affinity.pod_affinity
        far = None if affinity is None else affinity.pod_anti_affinity
        wishes = bool(near and near.preferred_during_scheduling_ignored_during_execution) or bool(
            far and far.preferred_during_scheduling_ignored_during_execution
        )
        if self._args.ignore_preferred_terms_of_existing_pods and not wishes:
            return SKIP
        if not wishes and not snapshot.any_affinity:
            return SKIP
        terms = parse_terms(pod)
        if terms.error:
            return error(f"failed to parse pod: {terms.error}")
        near_terms = self._expand_weighted(terms.preferred_affinity)
        far_terms = self._expand_weighted(terms.preferred_anti_affinity)
        namespace_labels = self._namespace_labels(pod)
        hard = self._args.hard_pod_affinity_weight
        topology = {}
        infos = snapshot.node_info_list if wishes else snapshot.have_pods_with_affinity
        for info in infos:
            assert info.node is not None
            labels = info.node.metadata.labels
            if not labels:
                continue
            for other in info.pods if wishes else info.pods_with_affinity:
                weigh_pod(
                    topology, other, pod, namespace_labels, labels, near_terms, far_terms, hard
                )
        if not topology:
            return SKIP
        state.write(SCORE_KEY, topology)
        return None

    def score(self, state, pod, node):
        """Sum of the weights of the node's domains."""
        assert node.node is not None
        labels = node.node.metadata.labels
        topology = state.data[SCORE_KEY]
        total = 0
        for key, values in topology.items():
            value = labels.get(key)
            if value is not None:
                total += values.get(value, 0)
        return total

    def normalize(self, state, pod, nodes, scores):
        """From the lowest, 0, to the highest, 100."""
        if not state.read(SCORE_KEY) or not scores:
            return
        low, high = min(scores), max(scores)
        span = high - low
        scores[:] = [
            int(100.0 * (float(score - low) / float(span))) if span > 0 else 0 for score in scores
        ]
        return
