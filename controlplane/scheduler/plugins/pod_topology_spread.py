"""PodTopologySpread: pods of one kind are spread over the domains of a topology.

Upstream: `pkg/scheduler/framework/plugins/podtopologyspread`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from controlplane.api.constraints import TopologySpreadConstraint
from controlplane.api.labels import SelectorError
from controlplane.api.recent import KEPT
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.args import PodTopologySpreadArgs
from controlplane.scheduler.framework.column_forms import (
    ClusterFilter,
    ClusterScore,
    NormalizeRows,
    StatusTable,
)
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    NormalizeScorePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.framework.scores import divide, round_half_away
from controlplane.scheduler.plugins import spread_constraints as sc

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.column_forms import Scores, StatusIds
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.plugins.spread_columns import DomainCounts
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo
    from controlplane.scheduler.state.snapshot import Snapshot

_MISSING_LABEL = unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)"
).by(names.POD_TOPOLOGY_SPREAD)
_SKEWED = unschedulable("node(s) didn't match pod topology spread constraints").by(
    names.POD_TOPOLOGY_SPREAD
)
FILTER_KEY = "PreFilterPodTopologySpread"
SCORE_KEY = "PreScorePodTopologySpread"
HOSTNAME = "kubernetes.io/hostname"

SYSTEM_DEFAULT_CONSTRAINTS = (
    TopologySpreadConstraint(
        topology_key=HOSTNAME, when_unsatisfiable=sc.SCHEDULE_ANYWAY, max_skew=3
    ),
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone",
        when_unsatisfiable=sc.SCHEDULE_ANYWAY,
        max_skew=5,
    ),
)


class FilterState:
    """Hard constraints, and for each how many matching pods every domain has.

    The counts may come as `columns`; dicts are then made when somebody asks for them.
    """

    __slots__ = ("_counts", "columns", "constraints", "policies")

    def __init__(
        self,
        constraints: Sequence[sc.Constraint],
        counts: list[dict[str, int]] | None,
        policies: sc.Policies,
        columns: list[DomainCounts] | None = None,
    ) -> None:
        self.constraints = constraints
        self._counts = counts
        self.policies = policies
        self.columns = columns

    @property
    def counts(self) -> list[dict[str, int]]:
        """Per constraint: value of the topology key -> matching pods."""
        if self._counts is None:
            self._counts = [each.as_dict() for each in self.columns or ()]
        return self._counts

    def clone(self) -> FilterState:
        """A copy for a what-if."""
        return FilterState(self.constraints, [dict(c) for c in self.counts], self.policies)

    def minimum(self, index: int) -> int:
        """Fewest matching pods of a domain; 0 with fewer domains than wanted."""
        counts = self.counts[index]
        if len(counts) < self.constraints[index].min_domains:
            return 0
        return min(counts.values(), default=0)


class ScoreState:
    """Soft constraints, counts per domain and weights."""

    __slots__ = ("constraints", "counts", "ignored", "weights")

    def __init__(self, constraints: Sequence[sc.Constraint]) -> None:
        self.constraints = constraints
        self.ignored: dict[str, None] = {}
        self.counts: list[dict[str, int]] = [{} for _ in constraints]
        self.weights: list[float] = []


class PodTopologySpread(
    PreFilterPlugin,
    PreFilterExtensions,
    ClusterFilter,
    PreScorePlugin,
    ClusterScore,
    NormalizeRows,
    NormalizeScorePlugin,
    EnqueueExtensions,
):
    """Refuses nodes that would skew hard constraints; rates by soft ones."""

    name = names.POD_TOPOLOGY_SPREAD

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._handle = handle
        self._system_defaulted = args.defaulting_type == "System"
        self._defaults: Sequence[TopologySpreadConstraint] = (
            SYSTEM_DEFAULT_CONSTRAINTS if self._system_defaulted else args.default_constraints
        )
        self._merge_keys = handle.feature("MatchLabelKeysInPodTopologySpread")
        self._known: dict[
            tuple[int, str],
            tuple[Sequence[TopologySpreadConstraint], Mapping[str, str], list[sc.Constraint]],
        ] = {}

    def constraints(self, pod: Pod, action: str) -> list[sc.Constraint]:
        """The pod's constraints with this action, or defaults. Raises SelectorError."""
        own = pod.spec.topology_spread_constraints
        if own:
            return self._compiled(own, pod, action)
        if not any(each.when_unsatisfiable == action for each in self._defaults):
            return []
        selector = sc.default_selector(pod, self._handle.listers)
        if selector.empty():
            return []
        found = self._compiled(self._defaults, pod, action)
        return [constraint.with_selector(selector) for constraint in found]

    def _compiled(
        self, given: Sequence[TopologySpreadConstraint], pod: Pod, action: str
    ) -> list[sc.Constraint]:
        """Compiled for the pod's labels; pods of one template share the result."""
        key = (id(given), action)
        known = self._known.get(key)
        if known is not None and known[1] == pod.labels:
            return known[2]
        found = sc.compile_constraints(given, pod, action, merge_keys=self._merge_keys)
        if len(self._known) >= KEPT:
            self._known.clear()
        self._known[key] = (given, pod.labels, found)
        return found

    # -- filter --------------------------------------------------------------------------------

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Count matching pods per domain over all eligible nodes."""
        try:
            constraints = self.constraints(pod, sc.DO_NOT_SCHEDULE)
        except SelectorError as broken:
            what = "get constraints from pod: obtaining pod's hard topology spread constraints"
            return None, error(f"{what}: {broken}")
        if not constraints:
            return None, SKIP
        policies = sc.Policies(pod)
        columns = self._handle.snapshot.columns
        if columns is not None:
            from controlplane.scheduler.plugins.spread_columns import count_domains

            domain_counts = count_domains(
                self._handle.snapshot, columns, constraints, policies, pod.namespace
            )
            state.write(FILTER_KEY, FilterState(constraints, None, policies, domain_counts))
            return None, None
        counts: list[dict[str, int]] = [{} for _ in constraints]
        for info in nodes:
            node = info.node
            assert node is not None
            labels = node.metadata.labels
            if not sc.has_all_keys(labels, constraints):
                continue
            for constraint, domains in zip(constraints, counts):
                if policies.include(constraint, node):
                    value = labels[constraint.topology_key]
                    matching = sc.count_matching(info.pods, constraint.selector, pod.namespace)
                    domains[value] = domains.get(value, 0) + matching
        state.write(FILTER_KEY, FilterState(constraints, counts, policies))
        return None, None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        """Count the pod in."""
        self._update(state.data[FILTER_KEY], pod, added.pod, node, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Count the pod out."""
        self._update(state.data[FILTER_KEY], pod, removed.pod, node, -1)
        return None

    def _update(self, kept: FilterState, pod: Pod, other: Pod, info: NodeInfo, by: int) -> None:
        node = info.node
        if node is None or other.namespace != pod.namespace:
            return
        labels = node.metadata.labels
        if not sc.has_all_keys(labels, kept.constraints):
            return
        for constraint, domains in zip(kept.constraints, kept.counts):
            if constraint.selector.matches(other.labels) and kept.policies.include(
                constraint, node
            ):
                value = labels[constraint.topology_key]
                domains[value] = domains.get(value, 0) + by

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node whose domain would get too many."""
        kept: FilterState = state.data[FILTER_KEY]
        assert node.node is not None
        labels = node.node.metadata.labels
        for index, constraint in enumerate(kept.constraints):
            value = labels.get(constraint.topology_key)
            if value is None:
                return _MISSING_LABEL
            own = 1 if constraint.matches_self else 0
            skew = kept.counts[index].get(value, 0) + own - kept.minimum(index)
            if skew > constraint.max_skew:
                return _SKEWED
        return None

    def filter_cluster(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """All nodes at once."""
        import numpy as np

        kept: FilterState = state.data[FILTER_KEY]
        ids = np.zeros(columns.size, np.int32)
        if kept.columns is None:
            for row, info in enumerate(snapshot.node_info_list):
                ids[row] = table.id_of(self.filter(state, pod, info))
            return ids
        for constraint, counts in zip(kept.constraints, kept.columns):
            topology = counts.topology
            own = 1 if constraint.matches_self else 0
            skewed = counts.sums + own - counts.minimum > constraint.max_skew
            if not counts.all_have:
                said = np.where(skewed[topology.codes], table.id_of(_SKEWED), 0)
                said = np.where(topology.has, said, table.id_of(_MISSING_LABEL))
            elif skewed.any():
                said = (skewed * table.id_of(_SKEWED))[topology.codes]
            else:
                continue
            ids = np.where(ids == 0, said, ids)
        return ids.astype(np.int32)

    # -- score ---------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]) -> Status | None:
        """Find the domains of the candidates and count matching pods in them."""
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
        columns, rows = self._handle.snapshot.columns, getattr(nodes, "rows", None)
        if columns is not None and rows is not None:
            from controlplane.scheduler.plugins.spread_columns import soft_scores

            soft = soft_scores(
                self._handle.snapshot,
                columns,
                constraints,
                sc.Policies(pod),
                pod.namespace,
                rows,
                require_all=require_all,
                weight=normalizing_weight,
            )
            state.write(SCORE_KEY, soft)
            return None
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

    def requires_all_keys(self, pod: Pod) -> bool:
        """Whether nodes without all topology keys are left out (not with system defaults)."""
        return bool(pod.spec.topology_spread_constraints) or not self._system_defaulted

    def _count_domains(
        self, kept: ScoreState, pod: Pod, nodes: Sequence[NodeInfo], require_all: bool
    ) -> None:
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
                    domains[value] += sc.count_matching(
                        info.pods, constraint.selector, pod.namespace
                    )

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Matching pods nearby, weighted: fewer are better after normalisation."""
        kept: ScoreState = state.data[SCORE_KEY]
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
                count = sc.count_matching(node.pods, constraint.selector, pod.namespace)
            else:
                count = kept.counts[index][value]
            total += float(count) * kept.weights[index] + float(constraint.max_skew - 1)
        return round_half_away(total)

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """Turn the order round; nodes that were left out get nothing."""
        kept: ScoreState | None = state.read(SCORE_KEY)
        if kept is None:
            return None
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
        return None

    def score_rows(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, columns: Columns, rows: Scores
    ) -> Scores:
        """The raw scores that PreScore computed for these rows."""
        scores: Scores = state.data[SCORE_KEY].scores
        return scores

    def normalize_rows(self, state: CycleState, pod: Pod, rows: Scores, raw: Scores) -> Scores:
        """Turn the order round; nodes that were left out get nothing."""
        from controlplane.scheduler.plugins.spread_columns import normalize

        return normalize(state.data[SCORE_KEY], raw)

    # -- hints ---------------------------------------------------------------------------------

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """Matching pods come, go or change; nodes of the topologies do."""
        pod_actions = ev.ADD | ev.UPDATE_POD_LABEL | ev.UPDATE_POD_TOLERATION | ev.DELETE
        node_actions = ev.ADD | ev.DELETE | ev.UPDATE_NODE_LABEL | ev.UPDATE_NODE_TAINT
        return [
            ev.ClusterEventWithHint(ev.ClusterEvent(ev.POD, pod_actions), self._pod_changed),
            ev.ClusterEventWithHint(ev.ClusterEvent(ev.NODE, node_actions), self._node_changed),
        ]

    def _hard(self, pod: Pod) -> list[sc.Constraint]:
        try:
            return self.constraints(pod, sc.DO_NOT_SCHEDULE)
        except SelectorError as broken:
            raise ev.HintError(str(broken)) from broken

    def _pod_changed(self, pod: Pod, old: Any, new: Any) -> ev.Hint:
        other = old if new is None else new
        itself = other.uid == pod.uid
        nearby = other.namespace == pod.namespace and (
            other.spec.node_name or other.status.nominated_node_name
        )
        if not itself and not nearby:
            return ev.Hint.SKIP
        constraints = self._hard(pod)
        if old is not None and new is not None:
            if (
                itself
                and old.spec.tolerations != new.spec.tolerations
                and any(c.taints_policy == sc.HONOR for c in constraints)
            ):
                return ev.Hint.QUEUE
            if old.labels == new.labels:
                return ev.Hint.SKIP
            flips = any(
                c.selector.matches(old.labels) != c.selector.matches(new.labels)
                for c in constraints
            )
            return ev.Hint.QUEUE if flips else ev.Hint.SKIP
        matches = any(c.selector.matches(other.labels) for c in constraints)
        return ev.Hint.QUEUE if matches else ev.Hint.SKIP

    def _node_changed(self, pod: Pod, old: Any, new: Any) -> ev.Hint:
        constraints = self._hard(pod)
        had = old is not None and sc.has_all_keys(old.labels, constraints)
        has = new is not None and sc.has_all_keys(new.labels, constraints)
        if old is None or new is None:
            return ev.Hint.QUEUE if had or has else ev.Hint.SKIP
        if had != has:
            return ev.Hint.QUEUE
        if has and (
            any(old.labels[c.topology_key] != new.labels[c.topology_key] for c in constraints)
            or old.spec.taints != new.spec.taints
        ):
            return ev.Hint.QUEUE
        return ev.Hint.SKIP

    @property
    def signs_no_pod(self) -> bool:
        """With default constraints any pod may be spread."""
        return bool(self._defaults)

    def sign_pod(self, pod: Pod) -> Sequence[tuple[str, Hashable]] | None:
        """Pods that spread see each other, so they cannot share results."""
        if pod.spec.topology_spread_constraints or self._defaults:
            return None
        return ()


def normalizing_weight(size: int) -> float:
    """Weight of a topology with `size` domains: more domains, more weight."""
    return math.log(float(size + 2))
