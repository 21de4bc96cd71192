"""Optional interfaces of a plugin besides its per-node methods: answers for many nodes at once.

Both ways must give the same answers. A plugin without these is asked node by node. Which form a
plugin has is found out once, when its profile is built (`FilterForm`, `ScoreForm`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar

import attrs
import numpy as np
from numpy.typing import NDArray

from controlplane.scheduler.columns.rows import Rows
from controlplane.scheduler.framework.interface import (
    FilterPlugin,
    NormalizeScorePlugin,
    ScorePlugin,
    Status,
    error,
)

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.columns.columns import Columns
    from controlplane.scheduler.framework.cycle_state import CycleState
    from controlplane.scheduler.state.node_info import NodeInfo

StatusIds = NDArray[np.int32]
Scores = NDArray[np.int64]


def verdict(plugin: str, status: Status | None) -> Status | None:
    """Return the status that counts of a filter's answer: any status but a rejection is an error."""
    if status is None or status.is_rejected:
        return None if status is None else status.by(plugin)
    return error(f'running "{plugin}" filter plugin: {status.message}').by(plugin)


class StatusTable:
    """Statuses by number, 0 for success, so that an array of numbers says why nodes failed."""

    __slots__ = ("_ids", "errors", "statuses")

    def __init__(self) -> None:
        self.statuses: list[Status | None] = [None]
        self.errors: list[int] = []
        """The numbers of statuses that are no refusals."""
        self._ids: dict[Status, int] = {}

    def id_of(self, status: Status | None) -> int:
        """The number of a status."""
        if status is None:
            return 0
        known = self._ids.get(status)
        if known is None:
            known = self._ids[status] = len(self.statuses)
            self.statuses.append(status)
            if not status.is_rejected:
                self.errors.append(known)
        return known


class NodeLocalFilter(FilterPlugin):
    """A filter whose answer depends on `filter_key` and the node alone, so it can be kept."""

    keyed_by_spec: ClassVar[bool] = False
    """The key follows from the pod's spec alone."""

    def filter_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Everything about the pod that its answer depends on."""
        raise NotImplementedError

    def filter_all(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """Status numbers for all rows; None when every node passes."""
        name = self.name
        said = (verdict(name, self.filter(state, pod, node)) for node in columns.infos)
        return np.array([table.id_of(status) for status in said], np.int32)


class ClusterFilter(FilterPlugin):
    """A filter whose answer depends on other nodes too: asked anew in every cycle."""

    def filter_cluster(
        self, state: CycleState, pod: Pod, columns: Columns, table: StatusTable
    ) -> StatusIds | None:
        """Status numbers for all rows; None when every node passes."""
        raise NotImplementedError


class NodeLocalScore(ScorePlugin):
    """A score that depends on `score_key` and the node alone (before normalisation)."""

    keyed_by_spec: ClassVar[bool] = False
    """The key follows from the pod's spec alone."""

    def score_key(self, state: CycleState, pod: Pod) -> Hashable:
        """Everything about the pod that its raw score depends on."""
        raise NotImplementedError

    def score_all(self, state: CycleState, pod: Pod, columns: Columns) -> Scores:
        """Raw scores for all rows."""
        return np.array([self.score(state, pod, node) for node in columns.infos], np.int64)


class ClusterScore(ScorePlugin):
    """A score that depends on other nodes too: asked anew in every cycle."""

    def score_rows(self, state: CycleState, pod: Pod, columns: Columns, rows: Scores) -> Scores:
        """Raw scores of the given rows, which are those passed to PreScore."""
        raise NotImplementedError


class NormalizeRows(NormalizeScorePlugin):
    """A normaliser over an array."""

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Scores) -> Scores:
        """Scores in 0..100 for the nodes passed to PreScore, in their order."""
        raise NotImplementedError

    def normalized_zero(self) -> int | None:
        """Return the score of every row when all raw scores are 0; None when that is not known beforehand."""
        return None

    def normalize(
        self, state: CycleState, pod: Pod, nodes: Sequence[NodeInfo], scores: list[int]
    ) -> Status | None:
        """The same for a list."""
        scores[:] = self.normalize_rows(state, pod, np.array(scores, np.int64)).tolist()
        return None


@attrs.frozen
class FilterForm:
    """A filter of a profile by the way in which it answers: one of the three, or node by node."""

    plugin: FilterPlugin
    local: NodeLocalFilter | None
    cluster: ClusterFilter | None

    @classmethod
    def of(cls, plugin: FilterPlugin) -> FilterForm:
        """The form of a plugin."""
        local = plugin if isinstance(plugin, NodeLocalFilter) else None
        return cls(plugin, local, plugin if isinstance(plugin, ClusterFilter) else None)

    @property
    def follows_spec(self) -> bool:
        """Return whether the answer follows from the pod's spec and the node alone."""
        return self.local is not None and self.local.keyed_by_spec


@attrs.frozen
class ScoreForm:
    """A scorer of a profile by the way in which it answers and normalises."""

    plugin: ScorePlugin
    weight: int
    local: NodeLocalScore | None
    cluster: ClusterScore | None
    rows: NormalizeRows | None
    normalizer: NormalizeScorePlugin | None

    @classmethod
    def of(cls, plugin: ScorePlugin, weight: int) -> ScoreForm:
        """The form of a plugin."""
        return cls(
            plugin,
            weight,
            plugin if isinstance(plugin, NodeLocalScore) else None,
            plugin if isinstance(plugin, ClusterScore) else None,
            plugin if isinstance(plugin, NormalizeRows) else None,
            plugin if isinstance(plugin, NormalizeScorePlugin) else None,
        )


__all__ = [
    "ClusterFilter",
    "ClusterScore",
    "FilterForm",
    "NodeLocalFilter",
    "NodeLocalScore",
    "NormalizeRows",
    "Rows",
    "ScoreForm",
    "Scores",
    "StatusIds",
    "StatusTable",
    "verdict",
]
