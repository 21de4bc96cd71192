"""PodTopologySpread: pods of one kind are spread over the domains of a topology.

Upstream: `pkg/scheduler/framework/plugins/podtopologyspread`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from controlplane.api.constraints import TopologySpreadConstraint
from controlplane.api.go_math import go_log
from controlplane.api.labels import SelectorError
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.args import PodTopologySpreadArgs
from controlplane.scheduler.framework.column_forms import (
    ClusterFilter,
    ClusterScore,
    NormalizeRows,
    StatusTable,
)
from controlplane.scheduler.framework.cycle_state import Clonable, CycleState
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from controlplane.scheduler.plugins import spread_constraints as sc
from controlplane.scheduler.plugins.spread_columns import (
    DomainCounts,
    SoftCounts,
    count_domains,
    normalize,
    soft_scores,
)
from controlplane.sharing.memory import IdentityCache

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.column_forms import Rows, Scores, StatusIds
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

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


class FilterState(Clonable):
    """Hard constraints, and for each the number of matching pods in every domain.

    They come as columns; dicts are made on demand, and are all that a copy has.
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


class PodTopologySpread(
    PreFilterPlugin,
    PreFilterExtensions,
    ClusterFilter,
    PreScorePlugin,
    ClusterScore,
    NormalizeRows,
    EnqueueExtensions,
):
    """Refuses nodes that would skew hard constraints; rates by soft ones."""

    name = names.POD_TOPOLOGY_SPREAD
    reads = ("services", "replication_controllers", "replica_sets", "stateful_sets")

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._handle = handle
        self._system_defaulted = args.defaulting_type == "System"
        self._defaults: Sequence[TopologySpreadConstraint] = (
            SYSTEM_DEFAULT_CONSTRAINTS if self._system_defaulted else args.default_constraints
        )
        self._merge_keys = handle.feature("MatchLabelKeysInPodTopologySpread")
        self._known: IdentityCache[tuple[Mapping[str, str], list[sc.Constraint]]] = IdentityCache(
            "spread constraints"
        )

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
        known = self._known.get(given, action)
        if known is not None and known[0] == pod.labels:
            return known[1]
        found = sc.compile_constraints(given, pod, action, merge_keys=self._merge_keys)
        self._known.put(given, (pod.labels, found), action)
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
        counts = count_domains(self._handle.columns, constraints, policies, pod.namespace)
        state.write(FILTER_KEY, FilterState(constraints, None, policies, counts))
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
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """All nodes at once."""
        kept: FilterState = state.data[FILTER_KEY]
        assert kept.columns is not None, (
            "only copies have no columns, and they are asked node by node"
        )
        ids = np.zeros(columns.size, np.int32)
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

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """Count matching pods in the domains of the candidates, and weigh them."""
        columns = self._handle.columns
        if not columns.size:
            return SKIP
        try:
            constraints = self.constraints(pod, sc.SCHEDULE_ANYWAY)
        except SelectorError as broken:
            what = "calculating preScoreState: obtaining pod's soft topology spread constraints"
            return error(f"{what}: {broken}")
        if not constraints:
            return SKIP
        soft = soft_scores(
            columns,
            constraints,
            sc.Policies(pod),
            pod.namespace,
            nodes.rows,
            require_all=self.requires_all_keys(pod),
            weight=normalizing_weight,
        )
        state.write(SCORE_KEY, soft)
        return None

    def requires_all_keys(self, pod: Pod) -> bool:
        """Return whether nodes without all topology keys are left out (not with system defaults)."""
        return bool(pod.spec.topology_spread_constraints) or not self._system_defaulted

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Matching pods nearby, weighted: fewer are better after normalisation."""
        soft: SoftCounts = state.data[SCORE_KEY]
        return soft.of(self._handle.snapshot.row_of[node.name])

    def score_rows(self, state: CycleState, pod: Pod, columns: Columns, rows: Scores) -> Scores:
        """The raw scores that PreScore computed for these rows."""
        soft: SoftCounts = state.data[SCORE_KEY]
        return soft.scores

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Scores) -> Scores:
        """Turn the order round; nodes that were left out get nothing."""
        return normalize(state.data[SCORE_KEY], raw)

    # -- hints ---------------------------------------------------------------------------------

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """Matching pods come, go or change; nodes of the topologies do."""
        pod_actions = ev.ADD | ev.UPDATE_POD_LABEL | ev.UPDATE_POD_TOLERATION | ev.DELETE
        node_actions = ev.ADD | ev.DELETE | ev.UPDATE_NODE_LABEL | ev.UPDATE_NODE_TAINT
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.POD, pod_actions), self._pod_changed),
            ev.ClusterEventWithHint(ev.event_of(ev.NODE, node_actions), self._node_changed),
        ]

    def _hard(self, pod: Pod) -> list[sc.Constraint]:
        try:
            return self.constraints(pod, sc.DO_NOT_SCHEDULE)
        except SelectorError as broken:
            raise ev.HintError(str(broken)) from broken

    def _pod_changed(self, pod: Pod, old: Pod | None, new: Pod | None) -> ev.Hint:
        other = old if new is None else new
        assert other is not None
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

    def _node_changed(self, pod: Pod, old: Node | None, new: Node | None) -> ev.Hint:
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

    def sign_pod(self, pod: Pod) -> signers.Fragments | Status:
        """Pods that spread see each other, so they cannot share results."""
        if pod.spec.topology_spread_constraints:
            return unschedulable("pods with topology constraints are not signable")
        if self._defaults:
            return unschedulable("pods with default topology constraints are not signable")
        return ()


def normalizing_weight(size: int) -> float:
    """Weight of a topology with `size` domains: more domains, more weight."""
    return go_log(float(size + 2))
