"""NodeAffinity: node selectors and node affinity, required and preferred.

Upstream: `pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from controlplane.api.labels import SelectorError
from controlplane.api.node_selector import PreferredTerms, RequiredNodeAffinity, node_selector
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.args import NodeAffinityArgs
from controlplane.scheduler.framework.column_forms import (
    NodeLocalFilter,
    NodeLocalScore,
    NormalizeRows,
    StatusTable,
)
from controlplane.scheduler.framework.interface import (
    SKIP,
    EnqueueExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Status,
    error,
    unresolvable,
)

if TYPE_CHECKING:
    from controlplane.api.constraints import NodeSelector
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.columns.rows import Rows
    from controlplane.scheduler.framework.column_forms import Scores, StatusIds
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

_MISMATCH = unresolvable("node(s) didn't match Pod's node affinity/selector").by(
    names.NODE_AFFINITY
)
_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity").by(
    names.NODE_AFFINITY
)
_CONFLICT = unresolvable("pod affinity terms conflict").by(names.NODE_AFFINITY)
_FILTER_KEY = "PreFilterNodeAffinity"
_SCORE_KEY = "PreScoreNodeAffinity"


class NodeAffinity(
    PreFilterPlugin,
    NodeLocalFilter,
    PreScorePlugin,
    NodeLocalScore,
    NormalizeRows,
    EnqueueExtensions,
):
    """Matches nodes with what pod and profile ask for. Raises SelectorError for bad args."""

    name = names.NODE_AFFINITY
    keyed_by_spec = True

    def __init__(self, args: NodeAffinityArgs) -> None:
        self._added = None
        self._added_preferred: PreferredTerms | None = None
        added = args.added_affinity
        if added is not None:
            required = added.required_during_scheduling_ignored_during_execution
            if required is not None:
                self._added = node_selector(required)
            preferred = added.preferred_during_scheduling_ignored_during_execution
            if preferred:
                self._added_preferred = PreferredTerms(preferred)
        self.has_added = self._added is not None

    def pre_filter(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult | None, Status | None]:
        """Compile the requirements; terms that name nodes restrict the search to them."""
        required = _required(pod)
        if required is None and self._added is None and not _has_node_selector(pod):
            return None, SKIP
        state.write(_FILTER_KEY, RequiredNodeAffinity(pod))
        if required is None:
            return None, None
        node_names = _named_nodes(required)
        if node_names is None:
            return None, None
        if not node_names:
            return None, _CONFLICT
        return PreFilterResult(node_names), None

    def pre_filter_by_spec(self, pod: Pod) -> bool:
        """Selector and affinity are in the spec."""
        return True

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse nodes outside the profile's or the pod's requirements."""
        assert node.node is not None
        if self._added is not None and not self._added.match(node.node):
            return _ENFORCED
        required = state.read(_FILTER_KEY)
        if required is None:
            required = RequiredNodeAffinity(pod)
        return None if _matches(required, node.node) else _MISMATCH

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """Compile the preferences; a broken one is an error."""
        try:
            preferred = preferred_terms(pod)
        except SelectorError as broken:
            return error(str(broken))
        if preferred is None and self._added_preferred is None:
            return SKIP
        state.write(_SCORE_KEY, preferred)
        return None

    def pre_score_by_spec(self, pod: Pod) -> bool:
        """Affinity is in the spec."""
        return True

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Sum of the weights of the matching preferences."""
        assert node.node is not None
        total = 0
        if self._added_preferred is not None:
            total += self._added_preferred.score(node.node)
        preferred: PreferredTerms | None = state.data.get(_SCORE_KEY)
        if preferred is not None:
            total += preferred.score(node.node)
        return total

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Scores) -> Scores:
        """The best node gets 100."""
        largest = int(raw.max()) if len(raw) else 0
        if largest <= 0:
            return raw
        points: Scores = abs(100 * raw) // largest
        points[raw < 0] *= -1
        return points

    def normalized_zero(self) -> int | None:
        """Return 0: without a matching preference every node scores 0."""
        return 0

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Node selector and required affinity."""
        return _selector_key(pod), _required(pod)

    def filter_all(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """Only nodes whose object changed are matched again."""

        def compute(info: NodeInfo) -> int:
            return table.id_of(self.filter(state, pod, info))

        key = ("node-affinity", self, self.filter_key(state, pod))
        return columns.node_property(key, compute).astype("int32")

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Preferred affinity."""
        affinity = pod.spec.affinity
        node_affinity = None if affinity is None else affinity.node_affinity
        if node_affinity is None:
            return ()
        return node_affinity.preferred_during_scheduling_ignored_during_execution

    def score_all(self, state: CycleState, pod: Pod, columns: Columns) -> Scores:
        """Only nodes whose object changed are rated again."""
        key = ("preferred-node-affinity", self, self.score_key(state, pod))
        return columns.node_property(key, lambda info: self.score(state, pod, info)).copy()

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A node comes or changes its labels."""
        event = ev.event_of(ev.NODE, ev.ADD | ev.UPDATE_NODE_LABEL)
        return [ev.ClusterEventWithHint(event, self._node_changed)]

    def _node_changed(self, pod: Pod, old: Node | None, new: Node) -> ev.Hint:
        if self._added is not None and not self._added.match(new):
            return ev.Hint.SKIP
        required = RequiredNodeAffinity(pod)
        try:
            matches_now = required.match(new)
        except SelectorError as broken:
            raise ev.HintError(str(broken)) from broken
        if not matches_now:
            return ev.Hint.SKIP
        if old is not None:
            try:
                matched_before = required.match(old)
            except SelectorError as broken:
                raise ev.HintError(str(broken)) from broken
            if matched_before:
                return ev.Hint.SKIP
        return ev.Hint.QUEUE

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """Node selector and node affinity."""
        return (
            (signers.NODE_AFFINITY, signers.node_affinity(pod)),
            (signers.NODE_SELECTOR, signers.text(dict(pod.spec.node_selector) or None)),
        )


def _selector_key(pod: Pod) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(pod.spec.node_selector.items()))


def _required(pod: Pod) -> NodeSelector | None:
    affinity = pod.spec.affinity
    node_affinity = None if affinity is None else affinity.node_affinity
    if node_affinity is None:
        return None
    return node_affinity.required_during_scheduling_ignored_during_execution


def preferred_terms(pod: Pod) -> PreferredTerms | None:
    """Compiled preferences; None when the pod has no list at all. Raises SelectorError."""
    affinity = pod.spec.affinity
    node_affinity = None if affinity is None else affinity.node_affinity
    if node_affinity is None:
        return None
    terms = node_affinity.preferred_during_scheduling_ignored_during_execution
    if not terms:
        tree = pod.tree["spec"]["affinity"]["nodeAffinity"]
        if tree.get("preferredDuringSchedulingIgnoredDuringExecution") is None:
            return None
    return PreferredTerms(terms)


def _has_node_selector(pod: Pod) -> bool:
    # An empty selector that is there differs from one that is not.
    if pod.spec.node_selector:
        return True
    return (pod.tree.get("spec") or {}).get("nodeSelector") is not None


def _named_nodes(required: NodeSelector) -> dict[str, None] | None:
    """Node names the terms allow; None when some term does not name nodes."""
    union: dict[str, None] = {}
    if not required.node_selector_terms:
        return None
    for term in required.node_selector_terms:
        allowed: dict[str, None] | None = None
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                values = dict.fromkeys(field.values)
                if allowed is None:
                    allowed = values
                else:
                    allowed = {name: None for name in allowed if name in values}
        if allowed is None:
            return None
        union.update(allowed)
    return union


def _matches(required: RequiredNodeAffinity, node: Node) -> bool:
    try:
        return required.match(node)
    except SelectorError:
        return False  # an unreadable term matches nothing
