"""TaintToleration: nodes repel pods that do not tolerate their taints.

Upstream: `pkg/scheduler/framework/plugins/tainttoleration/taint_toleration.go`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from controlplane.api.taints import PREFER_NO_SCHEDULE, tolerated, untolerated
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names, signers
from controlplane.scheduler.framework.column_forms import (
    NodeLocalFilter,
    NodeLocalScore,
    NormalizeRows,
    StatusTable,
)
from controlplane.scheduler.framework.handle import Handle
from controlplane.scheduler.framework.interface import (
    EnqueueExtensions,
    PreScorePlugin,
    Status,
    unresolvable,
)

if TYPE_CHECKING:
    from controlplane.api.constraints import Taint, Toleration
    from controlplane.api.node import Node
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.columns.rows import Rows
    from controlplane.scheduler.framework.column_forms import Scores, StatusIds
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

_TAINTED = unresolvable("node(s) had untolerated taint(s)").by(names.TAINT_TOLERATION)
_KEY = "PreScoreTaintToleration"


class TaintToleration(
    NodeLocalFilter,
    PreScorePlugin,
    NodeLocalScore,
    NormalizeRows,
    EnqueueExtensions,
):
    """Refuses nodes with untolerated taints; prefers those with fewer soft ones."""

    name = names.TAINT_TOLERATION
    keyed_by_spec = True

    def __init__(self, handle: Handle) -> None:
        self._comparison = handle.feature("TaintTolerationComparisonOperators")

    def repels(self, node: Node, pod: Pod) -> bool:
        """Return whether a NoSchedule or NoExecute taint of the node is not tolerated."""
        return self._untolerated(node.spec.taints, pod)

    def _untolerated(self, taints: tuple[Taint, ...], pod: Pod) -> bool:
        if not taints:
            return False
        found = untolerated(taints, pod.spec.tolerations, comparison=self._comparison)
        return found is not None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse a node with a hard taint the pod does not tolerate."""
        assert node.node is not None
        return _TAINTED if self.repels(node.node, pod) else None

    def soft_tolerations(self, pod: Pod) -> tuple[Toleration, ...]:
        """The pod's tolerations that concern PreferNoSchedule taints."""
        return tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))

    def soft_taints(self, taints: tuple[Taint, ...], tolerations: Sequence[Toleration]) -> int:
        """Return the number of PreferNoSchedule taints that are not tolerated."""
        return sum(
            1
            for taint in taints
            if taint.effect == PREFER_NO_SCHEDULE
            and not tolerated(tolerations, taint, comparison=self._comparison)
        )

    def pre_score(self, state: CycleState, pod: Pod, nodes: Rows) -> Status | None:
        """Keep the tolerations that matter here."""
        state.write(_KEY, self.soft_tolerations(pod))
        return None

    def pre_score_by_spec(self, pod: Pod) -> bool:
        """Tolerations are in the spec."""
        return True

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Number of soft taints that repel the pod."""
        assert node.node is not None
        return self.soft_taints(node.node.spec.taints, state.data[_KEY])

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """The pod's tolerations."""
        return pod.spec.tolerations

    def filter_all(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """Look at each distinct set of taints once."""
        number = table.id_of(_TAINTED)
        ids = [number if self._untolerated(taints, pod) else 0 for taints in columns.taint_sets]
        if not any(ids):
            return None
        return np.array(ids, np.int32)[columns.taint_class]

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """The tolerations that matter for scores."""
        key: tuple[Toleration, ...] = state.data[_KEY]
        return key

    def score_all(self, state: CycleState, pod: Pod, columns: Columns) -> Scores:
        """Count for each distinct set of taints once."""
        tolerations = state.data[_KEY]
        counts = [self.soft_taints(taints, tolerations) for taints in columns.taint_sets]
        return np.array(counts, np.int64)[columns.taint_class]

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Scores) -> Scores:
        """Fewer taints, more points."""
        largest = int(raw.max()) if len(raw) else 0
        if largest == 0:
            return raw + 100
        return 100 - 100 * raw // largest

    def normalized_zero(self) -> int | None:
        """Without soft taints every node gets all points."""
        return 100

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """A node comes or changes its taints; the pod's tolerations change."""
        return [
            ev.ClusterEventWithHint(
                ev.event_of(ev.NODE, ev.ADD | ev.UPDATE_NODE_TAINT), self._node_changed
            ),
            ev.ClusterEventWithHint(
                ev.event_of(ev.POD, ev.UPDATE_POD_TOLERATION), _toleration_changed
            ),
        ]

    def _node_changed(self, pod: Pod, old: Node | None, new: Node) -> ev.Hint:
        was_repelled = old is None or self.repels(old, pod)
        return ev.Hint.QUEUE if was_repelled and not self.repels(new, pod) else ev.Hint.SKIP

    def sign_pod(self, pod: Pod) -> signers.Fragments:
        """The pod's tolerations."""
        return ((signers.TOLERATIONS, signers.tolerations(pod)),)


def _toleration_changed(pod: Pod, _old: Pod, new: Pod) -> ev.Hint:
    return ev.Hint.QUEUE if new.uid == pod.uid else ev.Hint.SKIP
