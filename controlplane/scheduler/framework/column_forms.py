"""What a plugin may offer besides its per-node methods: answers for many nodes in one go.

Both ways must give the same answers; tests compare them. A plugin without these is asked node by
node.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from controlplane.scheduler.framework.interface import FilterPlugin, ScorePlugin, Status

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.snapshot import Snapshot

    StatusIds = NDArray[np.int32]
    Scores = NDArray[np.int64]


class StatusTable:
    """Statuses by number, 0 for success, so that an array of numbers says why nodes failed."""

    __slots__ = ("_ids", "statuses")

    def __init__(self) -> None:
        self.statuses: list[Status | None] = [None]
        self._ids: dict[Status, int] = {}

    def id_of(self, status: Status | None) -> int:
        """The number of a status."""
        if status is None:
            return 0
        known = self._ids.get(status)
        if known is None:
            known = self._ids[status] = len(self.statuses)
            self.statuses.append(status)
        return known


class NodeLocalFilter(FilterPlugin):
    """A filter whose answer depends on `filter_key` and the node alone, so it can be kept."""

    keyed_by_spec: ClassVar[bool] = False
    """Whether the key follows from the pod's spec alone."""

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Everything about the pod that its answer depends on."""
        raise NotImplementedError

    def filter_all(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """Status numbers for all rows; None when every node passes."""
        import numpy as np

        ids = []
        for node in snapshot.node_info_list:
            status = self.filter(state, pod, node)
            ids.append(0 if status is None else table.id_of(status.by(self.name)))
        return np.array(ids, np.int32)


class ClusterFilter(FilterPlugin):
    """A filter whose answer depends on other nodes too: asked anew in every cycle."""

    def filter_cluster(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """Status numbers for all rows; None when every node passes."""
        raise NotImplementedError


class NodeLocalScore(ScorePlugin):
    """A score that depends on `score_key` and the node alone (before normalisation)."""

    keyed_by_spec: ClassVar[bool] = False
    """Whether the key follows from the pod's spec alone."""

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Everything about the pod that its raw score depends on."""
        raise NotImplementedError

    def score_all(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, columns: Columns
    ) -> Scores:
        """Raw scores for all rows."""
        import numpy as np

        return np.array(
            [self.score(state, pod, node) for node in snapshot.node_info_list], np.int64
        )


class ClusterScore(ScorePlugin):
    """A score that depends on other nodes too: asked anew in every cycle."""

    def score_rows(
        self, state: CycleState, pod: Pod, snapshot: Snapshot, columns: Columns, rows: Scores
    ) -> Scores:
        """Raw scores of the given rows."""
        raise NotImplementedError


class NormalizeRows(ScorePlugin):
    """A normaliser over an array."""

    def normalize_rows(self, state: CycleState, pod: Pod, rows: Scores, raw: Scores) -> Scores:
        """Scores in 0..100 for the given rows."""
        raise NotImplementedError

    def normalized_zero(self) -> int | None:
        """What every row gets when all raw scores are 0; None when that is not known beforehand."""
        return None
