"""PodTopologySpread, counted node by node."""

from __future__ import annotations

from controlplane.api.labels import SelectorError
from controlplane.scheduler.framework.interface import SKIP, error
from controlplane.scheduler.framework.scores import divide, round_half_away
from controlplane.scheduler.plugins import spread_constraints as sc
from controlplane.scheduler.plugins.pod_topology_spread import (
    FILTER_KEY,
    HOSTNAME,
    SCORE_KEY,
    FilterState,
    PodTopologySpread,
    normalizing_weight,
)
from tests.scheduler.reference.counting import count_matching


class ScoreState:
    """Soft constraints, counts per domain and weights."""

    __slots__ = ("constraints", "counts", "ignored", "weights")

    def __init__(self, constraints):
        self.constraints = constraints
        self.ignored: dict[str, None] = {}
        self.counts: list[dict[str, int]] = [{} for _ in constraints]
        self.weights: list[float] = []


class PodTopologySpreadByNode(PodTopologySpread):
    def pre_filter(self, state, pod, nodes):
        try:
            constraints = self.constraints(pod, sc.DO_NOT_SCHEDULE)
        except SelectorError as broken:
            what = "get constraints from pod: obtaining pod's hard topology spread constraints"
            return None, error(f"{what}: {broken}")
        if not constraints:
            return None, SKIP
        policies = sc.Policies(pod)
        counts = [{} for _ in constraints]
        for info in nodes:
            node = info.node
            assert node is not None
            labels = node.metadata.labels
            if not sc.has_all_keys(labels, constraints):
                continue
            for constraint, domains in zip(constraints, counts):
                if policies.include(constraint, node):
                    value = labels[constraint.topology_key]
                    matching = count_matching(info.pods, constraint.selector, pod.namespace)
                    domains[value] = domains.get(value, 0) + matching
        state.write(FILTER_KEY, FilterState(constraints, counts, policies))
        return None, None

    def pre_score(self, state, pod, nodes):
        all_nodes = self._handle.snapshot.node_info_list
        if not all_nodes:
            return SKIP
        try:
            constraints = self.constraints(pod, sc.SCHEDULE_ANYWAY)
        except SelectorError as broken:
            what = "calculating preScoreState: obtaining pod's soft topology spread constraints"
            return error(f"{what}: {broken}")
        if not constraints:
            return SKIP
        require_all = self.requires_all_keys(pod)
        kept = ScoreState(constraints)
        for info in nodes:
            assert info.node is not None
            labels = info.node.metadata.labels
            if require_all and not sc.has_all_keys(labels, constraints):
                kept.ignored[info.name] = None
                continue
            for constraint, domains in zip(constraints, kept.counts):
                if constraint.topology_key != HOSTNAME:
                    domains.setdefault(labels.get(constraint.topology_key, ""), 0)
        present = len(nodes) - len(kept.ignored)
        kept.weights = [
            normalizing_weight(present if c.topology_key == HOSTNAME else len(domains))
            for c, domains in zip(constraints, kept.counts)
        ]
        self._count_domains(kept, pod, all_nodes, require_all)
        state.write(SCORE_KEY, kept)
        return None

    def _count_domains(self, kept, pod, nodes, require_all):
        policies = sc.Policies(pod)
        for info in nodes:
            node = info.node
            assert node is not None
            labels = node.metadata.labels
            if require_all and not sc.has_all_keys(labels, kept.constraints):
                continue
            for constraint, domains in zip(kept.constraints, kept.counts):
                value = labels.get(constraint.topology_key, "")
                if value in domains and policies.include(constraint, node):
                    domains[value] += count_matching(info.pods, constraint.selector, pod.namespace)

    def score(self, state, pod, node):
        """Matching pods nearby, weighted: fewer are better after normalisation."""
        kept = state.data[SCORE_KEY]
        if node.name in kept.ignored:
            return 0
        assert node.node is not None
        labels = node.node.metadata.labels
        total = 0.0
        for index, constraint in enumerate(kept.constraints):
            value = labels.get(constraint.topology_key)
            if value is None:
                continue
            if constraint.topology_key == HOSTNAME:
                count = count_matching(node.pods, constraint.selector, pod.namespace)
            else:
                count = kept.counts[index][value]
            total += float(count) * kept.weights[index] + float(constraint.max_skew - 1)
        return round_half_away(total)

    def normalize(self, state, pod, nodes, scores):
        """Turn the order round; nodes that were left out get nothing."""
        kept = state.read(SCORE_KEY)
        if kept is None:
            return
        counted = [s for info, s in zip(nodes, scores) if info.name not in kept.ignored]
        low, high = min(counted, default=0), max(counted, default=0)
        high = max(high, 0)
        for i, info in enumerate(nodes):
            if info.name in kept.ignored:
                scores[i] = 0
            elif high == 0:
                scores[i] = 100
            else:
                scores[i] = divide(100 * (high + low - scores[i]), high)
        return
