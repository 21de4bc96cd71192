"""The cluster as one scheduling cycle sees it.

Upstream: `pkg/scheduler/backend/cache/snapshot.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.node_info import NodeInfo

if TYPE_CHECKING:
    from controlplane.scheduler.columns import Columns

_LOG_LIMIT = 100_000


class ChangeReader:
    """Tells which rows of a snapshot changed since it was asked last."""

    __slots__ = ("_epoch", "_position")

    def __init__(self) -> None:
        self._epoch = -1
        self._position = 0

    def changed(self, snapshot: Snapshot) -> list[int] | None:
        """Rows changed since the last call, each once; None when all may have."""
        log = snapshot.changed_rows
        if self._epoch != snapshot.epoch:
            self._epoch = snapshot.epoch
            self._position = len(log)
            return None
        position = self._position
        if position == len(log):
            return []
        self._position = len(log)
        if position + 1 == len(log):
            return log[-1:]
        return list(dict.fromkeys(log[position:]))


class Snapshot:
    """Node infos by name and in search order. Filled by `Cache.update_snapshot` only.

    `epoch` grows with every rebuild of the list; `changed_rows` logs which rows of the list were
    refreshed since then, so that whoever keeps something per node recomputes only those.
    """

    __slots__ = (
        "changed_rows",
        "columns",
        "epoch",
        "generation",
        "have_pods_with_affinity",
        "have_pods_with_required_anti_affinity",
        "node_info_list",
        "node_info_map",
        "row_of",
        "used_pvcs",
    )

    def __init__(self) -> None:
        self.node_info_map: dict[str, NodeInfo] = {}
        self.node_info_list: list[NodeInfo] = []
        self.have_pods_with_affinity: list[NodeInfo] = []
        self.have_pods_with_required_anti_affinity: list[NodeInfo] = []
        self.used_pvcs: dict[str, None] = {}
        self.generation = 0
        self.epoch = 0
        self.row_of: dict[str, int] = {}
        self.changed_rows: list[int] = []
        self.columns: Columns | None = None
        """Node state in columns, once a search has asked for it."""

    def __len__(self) -> int:
        return len(self.node_info_list)

    def get(self, name: str) -> NodeInfo | None:
        """The node of that name, or None."""
        return self.node_info_map.get(name)

    def note_change(self, name: str) -> None:
        """Log that the row of `name` was refreshed."""
        row = self.row_of.get(name)
        if row is not None:
            if len(self.changed_rows) >= _LOG_LIMIT:
                self.epoch += 1
                self.changed_rows = []
            self.changed_rows.append(row)

    def rebuild_lists(self, order: list[str] | None) -> None:
        """Rebuild the auxiliary lists, and with `order` the node list itself."""
        if order is not None:
            infos = self.node_info_map
            self.node_info_list = [infos[name] for name in order if name in infos]
            self.row_of = {info.name: row for row, info in enumerate(self.node_info_list)}
            self.epoch += 1
            self.changed_rows = []
        self.have_pods_with_affinity = [n for n in self.node_info_list if n.pods_with_affinity]
        self.have_pods_with_required_anti_affinity = [
            n for n in self.node_info_list if n.pods_with_required_anti_affinity
        ]
        self.used_pvcs = {}
        for info in self.node_info_list:
            if info.pvc_ref_counts:
                self.used_pvcs.update(dict.fromkeys(info.pvc_ref_counts))
