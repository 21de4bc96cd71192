"""InterPodAffinity: nearness to and distance from other pods.

Upstream: `pkg/scheduler/framework/plugins/interpodaffinity`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np

from controlplane.api.labels import SelectorError
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.args import InterPodAffinityArgs
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
from controlplane.scheduler.plugins import affinity_columns as over
from controlplane.scheduler.plugins.affinity_counts import (
    NO_LABELS,
    Counts,
    bump,
    matches_all,
)
from controlplane.scheduler.state.affinity_terms import (
    AffinityTerm,
    PodTerms,
    WeightedTerm,
    parse_required_terms,
    parse_terms,
)

if TYPE_CHECKING:
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.column_forms import Rows, Scores, StatusIds
    from controlplane.scheduler.plugins.affinity_columns import Sums
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_info import PodInfo

_NO_AFFINITY = unresolvable("node(s) didn't match pod affinity rules").by(names.INTER_POD_AFFINITY)
_ANTI_AFFINITY = unschedulable("node(s) didn't match pod anti-affinity rules").by(
    names.INTER_POD_AFFINITY
)
_EXISTING_ANTI_AFFINITY = unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules"
).by(names.INTER_POD_AFFINITY)
FILTER_KEY = "PreFilterInterPodAffinity"
SCORE_KEY = "PreScoreInterPodAffinity"


@attrs.define
class DomainSums:
    """The same counts as columns: topology key -> sum per domain."""

    existing_anti: Sums
    affinity: Sums
    anti: Sums
    to_counts: Callable[[Sums], Counts]


@attrs.define
class FilterState(Clonable):
    """Number of matching pods in each topology domain, in three respects.

    They come as columns; dicts are made on demand, and are all that a copy has.
    """

    terms: PodTerms
    matches_itself: bool
    namespace_labels: Mapping[str, str]
    sums: DomainSums | None = None
    _existing_anti: Counts | None = None
    _affinity: Counts | None = None
    _anti: Counts | None = None

    @property
    def existing_anti(self) -> Counts:
        """Terms of existing pods that mean the incoming pod."""
        if self._existing_anti is None:
            sums = self.sums
            self._existing_anti = {} if sums is None else sums.to_counts(sums.existing_anti)
        return self._existing_anti

    @property
    def affinity(self) -> Counts:
        """Existing pods that match all required affinity terms."""
        if self._affinity is None:
            sums = self.sums
            self._affinity = {} if sums is None else sums.to_counts(sums.affinity)
        return self._affinity

    @property
    def anti(self) -> Counts:
        """Existing pods that match a required anti-affinity term, once per term."""
        if self._anti is None:
            sums = self.sums
            self._anti = {} if sums is None else sums.to_counts(sums.anti)
        return self._anti

    def clone(self) -> FilterState:
        """A copy for a what-if."""
        return FilterState(
            self.terms,
            self.matches_itself,
            self.namespace_labels,
            None,
            dict(self.existing_anti),
            dict(self.affinity),
            dict(self.anti),
        )

    def count(self, pod: Pod, other: PodInfo, labels: Mapping[str, str], by: int) -> None:
        """Count `other`, on a node with these labels, in (1) or out (-1)."""
        for term in other.terms.required_anti_affinity:
            if term.matches(pod, self.namespace_labels):
                bump(self.existing_anti, labels, term.topology_key, by)
        if matches_all(self.terms.required_affinity, other.pod):
            for term in self.terms.required_affinity:
                bump(self.affinity, labels, term.topology_key, by)
        for term in self.terms.required_anti_affinity:
            if term.matches(other.pod, NO_LABELS):
                bump(self.anti, labels, term.topology_key, by)


class InterPodAffinity(
    PreFilterPlugin,
    PreFilterExtensions,
    ClusterFilter,
    PreScorePlugin,
    ClusterScore,
    NormalizeRows,
    EnqueueExtensions,
):
    """Refuses nodes by required terms of either side; rates by preferred ones."""

    name = names.INTER_POD_AFFINITY
    reads = ("namespaces",)

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        self._args = args
        self._handle = handle

    def expand(self, term: AffinityTerm) -> AffinityTerm:
        """Add the namespaces that the term's selector picks now.

        The selector itself stays in the term (upstream issue 141526) and is then evaluated
        against empty labels, so one that also accepts those matches every namespace.
        """
        if term.namespace_selector.empty() or not term.namespace_selector.selectable():
            return term
        picked = {
            namespace.name
            for namespace in self._handle.listers.namespaces.list()
            if term.namespace_selector.matches(namespace.labels)
        }
        return attrs.evolve(term, namespaces=term.namespaces | picked)

    def _namespace_labels(self, pod: Pod) -> Mapping[str, str]:
        namespace = self._handle.listers.namespaces.get("", pod.namespace)
        return {} if namespace is None else namespace.labels

    # -- filter --------------------------------------------------------------------------------

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
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
        columns = self._handle.columns
        existing = over.existing_anti_affinity(columns, pod, kept.namespace_labels)
        if not own and not any(amounts.any() for amounts in existing.values()):
            return None, SKIP
        kept.sums = DomainSums(
            existing,
            over.matching_all(columns, terms.required_affinity),
            over.matching_each(columns, terms.required_anti_affinity),
            lambda sums: over.as_counts(columns, sums),
        )
        state.write(FILTER_KEY, kept)
        return None, None

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
        """Count the pod in."""
        if node.node is not None:
            state.data[FILTER_KEY].count(pod, added, node.node.metadata.labels, 1)
        return None

    def remove_pod(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status | None:
        """Count the pod out."""
        if node.node is not None:
            state.data[FILTER_KEY].count(pod, removed, node.node.metadata.labels, -1)
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Own affinity, own anti-affinity, then the anti-affinity of pods already there."""
        kept: FilterState = state.data[FILTER_KEY]
        assert node.node is not None
        labels = node.node.metadata.labels
        if kept.terms.required_affinity and not _near(kept, labels):
            return _NO_AFFINITY
        if kept.anti:
            for term in kept.terms.required_anti_affinity:
                value = labels.get(term.topology_key)
                if value is not None and kept.anti.get((term.topology_key, value), 0) > 0:
                    return _ANTI_AFFINITY
        if kept.existing_anti and any(
            kept.existing_anti.get(pair, 0) > 0 for pair in labels.items()
        ):
            return _EXISTING_ANTI_AFFINITY
        return None

    def filter_cluster(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """All nodes at once."""
        kept: FilterState = state.data[FILTER_KEY]
        sums = kept.sums
        assert sums is not None, "only copies have no columns, and they are asked node by node"
        ids = np.zeros(columns.size, np.int32)
        anti_keys = [term.topology_key for term in kept.terms.required_anti_affinity]
        checks = (
            (
                over.near(
                    columns,
                    kept.terms,
                    sums.affinity,
                    matches_itself=kept.matches_itself,
                ),
                _NO_AFFINITY,
            ),
            (over.apart(columns, anti_keys, sums.anti), _ANTI_AFFINITY),
            (
                over.apart(columns, list(sums.existing_anti), sums.existing_anti),
                _EXISTING_ANTI_AFFINITY,
            ),
        )
        for passes, refusal in checks:
            if passes is not None:
                ids = np.where((ids == 0) & ~passes, table.id_of(refusal), ids)
        return ids.astype(np.int32)

    # -- score ---------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
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
        sums = over.weights(
            self._handle.columns, pod, namespace_labels, near_terms, far_terms, hard
        )
        if sums is None:
            return SKIP
        state.write(SCORE_KEY, sums)
        return None

    def _expand_weighted(self, terms: Iterable[WeightedTerm]) -> list[WeightedTerm]:
        return [attrs.evolve(each, term=self.expand(each.term)) for each in terms]

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Sum of the weights of the node's domains."""
        row = np.array([self._handle.snapshot.row_of[node.name]])
        return int(over.scores(self._handle.columns, state.data[SCORE_KEY], row)[0])

    def score_rows(self, state: CycleState, pod: Pod, columns: Columns, rows: Scores) -> Scores:
        """Sum of the weights of the nodes' domains."""
        return over.scores(columns, state.data[SCORE_KEY], rows)

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Scores) -> Scores:
        """From the lowest, 0, to the highest, 100."""
        return over.normalize(raw)

    # -- hints ---------------------------------------------------------------------------------

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """Pods come, go or change labels; nodes come or change labels."""
        pod_actions = ev.ADD | ev.UPDATE_POD_LABEL | ev.DELETE
        return [
            ev.ClusterEventWithHint(ev.event_of(ev.POD, pod_actions), _pod_changed),
            ev.ClusterEventWithHint(
                ev.event_of(ev.NODE, ev.ADD | ev.UPDATE_NODE_LABEL), _node_changed
            ),
        ]

    def sign_pod(self, pod: Pod) -> signers.Fragments | Status:
        """Pods with pod affinity see each other; others may be seen by theirs, by labels."""
        affinity = pod.spec.affinity
        if affinity is not None and (
            affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None
        ):
            return unschedulable("pods with InterPodAffinity are not signable")
        if self._args.ignore_preferred_terms_of_existing_pods:
            return ()
        return ((signers.LABELS, signers.text(dict(pod.labels) or None)),)


def _near(kept: FilterState, labels: Mapping[str, str]) -> bool:
    exists = True
    for term in kept.terms.required_affinity:
        value = labels.get(term.topology_key)
        if value is None:
            return False
        if kept.affinity.get((term.topology_key, value), 0) <= 0:
            exists = False
    # # The first pod of a group with affinity to itself has no other pod to match.
    return exists or (not kept.affinity and kept.matches_itself)


def _required_terms(pod: Pod) -> PodTerms:
    try:
        return parse_required_terms(pod)
    except SelectorError as broken:
        raise ev.HintError(str(broken)) from broken


def _scheduled(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def _pod_changed(pod: Pod, old: Pod | None, new: Pod | None) -> ev.Hint:
    queue, skip = ev.Hint.QUEUE, ev.Hint.SKIP
    if old is not None and new is not None and new.uid == pod.uid:
        return queue
    if (new is not None and not _scheduled(new)) or (old is not None and not _scheduled(old)):
        return skip
    terms = _required_terms(pod)
    near, far = terms.required_affinity, terms.required_anti_affinity
    if old is not None and new is not None:
        if not matches_all(near, old) and matches_all(near, new):
            return queue
        left = matches_all(far, old) and not matches_all(far, new)
        return queue if left else skip
    if new is not None:
        return queue if matches_all(near, new) else skip
    assert old is not None
    if matches_all(far, old) or matches_all(_required_terms(old).required_anti_affinity, pod):
        return queue
    return skip


def _node_changed(pod: Pod, old: Node | None, new: Node) -> ev.Hint:
    terms = _required_terms(pod)
    after, before = new.labels, None if old is None else old.labels
    for term in terms.required_affinity:
        value = after.get(term.topology_key)
        if value is not None and (before is None or before.get(term.topology_key) != value):
            return ev.Hint.QUEUE
    for term in terms.required_anti_affinity:
        if before is None:
            return ev.Hint.QUEUE
        if term.topology_key in before and before[term.topology_key] != after.get(
            term.topology_key
        ):
            return ev.Hint.QUEUE
    return ev.Hint.SKIP
