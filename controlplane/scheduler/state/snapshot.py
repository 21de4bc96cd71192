"""The cluster as one scheduling cycle sees it.

Upstream: `pkg/scheduler/backend/cache/snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from controlplane.scheduler.state.node_info import NodeInfo
from controlplane.scheduler.state.pod_groups import PodGroupStates

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.state.pod_info import PodInfo

_LOG_LIMIT = 100_000


class Changing(Protocol):
    """Something kept by row, with a log of the rows that changed since its epoch began."""

    @property
    def epoch(self) -> int:
        """Another number when everything may be another."""

    @property
    def changed_rows(self) -> list[int]:
        """Rows in order of change."""


class ChangeReader:
    """Tells which rows of a snapshot, or of what is kept along with it, changed since it was asked last."""

    __slots__ = ("_epoch", "_position")

    def __init__(self) -> None:
        self._epoch = -1
        self._position = 0

    def changed(self, snapshot: Changing) -> list[int] | None:
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

    `epoch` grows with every rebuild of the list; `changed_rows` logs the rows that were refreshed since then,
    so that values kept per node are recomputed for those only.
    """

    __slots__ = (
        "_lists",
        "_tried",
        "_tries",
        "_with_affinity",
        "_with_anti_affinity",
        "changed_rows",
        "epoch",
        "generation",
        "node_info_list",
        "node_info_map",
        "pod_groups",
        "row_of",
        "used_pvcs",
    )

    def __init__(self) -> None:
        self.node_info_map: dict[str, NodeInfo] = {}
        self.node_info_list: list[NodeInfo] = []
        self._with_affinity: dict[str, None] = {}
        self._with_anti_affinity: dict[str, None] = {}
        self._lists: tuple[list[NodeInfo], list[NodeInfo]] | None = None
        self.used_pvcs: dict[str, int] = {}
        """`namespace/claim` -> nodes with a pod that uses it directly."""
        self.generation = 0
        self.epoch = 0
        self.row_of: dict[str, int] = {}
        self.changed_rows: list[int] = []
        self.pod_groups = PodGroupStates()
        """Members of pod groups at that time, and as a group's cycle tries them."""
        self._tried: dict[str, tuple[int, int]] = {}
        self._tries = 0

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

    @property
    def have_pods_with_affinity(self) -> list[NodeInfo]:
        """Nodes with a pod that has pod affinity or anti-affinity, in search order."""
        return self._auxiliary_lists()[0]

    @property
    def have_pods_with_required_anti_affinity(self) -> list[NodeInfo]:
        """Nodes with a pod that has required anti-affinity, in search order."""
        return self._auxiliary_lists()[1]

    @property
    def any_required_anti_affinity(self) -> bool:
        """Return whether any node has such a pod."""
        return bool(self._with_anti_affinity)

    @property
    def any_affinity(self) -> bool:
        """Return whether any pod on a node has pod affinity or anti-affinity."""
        return bool(self._with_affinity)

    def _auxiliary_lists(self) -> tuple[list[NodeInfo], list[NodeInfo]]:
        if self._lists is None:
            rows, infos = self.row_of, self.node_info_list
            affinity, anti = (
                [infos[row] for row in sorted(rows[name] for name in names if name in rows)]
                for names in (self._with_affinity, self._with_anti_affinity)
            )
            self._lists = (affinity, anti)
        return self._lists

    def refresh(
        self, name: str, existing: NodeInfo, info: NodeInfo, images: dict[str, tuple[int, int]]
    ) -> None:
        """Make `existing` (of this snapshot) a copy of `info`, in place, with these images.

        Where pods were only replaced by newer objects with the same counts, no answer about the node changes,
        so its row has not changed.
        """
        if existing.substance == info.substance and existing.image_states == images:
            existing.follow(info)
            return
        if bool(existing.pods_with_affinity) != bool(info.pods_with_affinity):
            _toggle(self._with_affinity, name)
            self._lists = None
        if bool(existing.pods_with_required_anti_affinity) != bool(
            info.pods_with_required_anti_affinity
        ):
            _toggle(self._with_anti_affinity, name)
            self._lists = None
        if existing.pvc_ref_counts or info.pvc_ref_counts:
            self._count_claims(existing, -1)
            self._count_claims(info, 1)
        existing.follow(info)
        existing.image_states = images
        self.note_change(name)

    def _count_claims(self, info: NodeInfo, by: int) -> None:
        for key in info.pvc_ref_counts:
            count = self.used_pvcs.get(key, 0) + by
            if count:
                self.used_pvcs[key] = count
            else:
                del self.used_pvcs[key]

    def drop(self, name: str) -> None:
        """Forget a node that is gone; the list has to be rebuilt afterwards."""
        info = self.node_info_map.pop(name)
        self._with_affinity.pop(name, None)
        self._with_anti_affinity.pop(name, None)
        self._count_claims(info, -1)

    # -- what a pod group's cycle tries ----------------------------------------------------------

    def assume_pod(self, info: PodInfo) -> None:
        """Count a pod on its node, here only. Lists of nodes by affinity do not follow, as upstream."""
        node = self.node_info_map[info.pod.spec.node_name]
        node.add_pod(info)
        self.note_trial(node.name)
        self.pod_groups.assume_in_copy(info.pod)

    def forget_pod(self, pod: Pod) -> None:
        """Take that back."""
        node = self.node_info_map[pod.spec.node_name]
        node.remove_pod(pod)
        self.note_trial(node.name)
        self.pod_groups.forget_in_copy(pod)

    def note_trial(self, name: str) -> None:
        """A node was changed that the cache knows otherwise: what is kept about it does not hold."""
        node = self.node_info_map[name]
        self._tried.setdefault(name, (node.generation, node.substance))
        self._tries += 1
        node.generation = node.substance = -self._tries
        self.note_change(name)

    def end_trials(self) -> None:
        """All nodes are again as the cache knows them."""
        for name, (generation, substance) in self._tried.items():
            node = self.node_info_map[name]
            node.generation, node.substance = generation, substance
            self.note_change(name)
        self._tried.clear()

    def back_up(self) -> Callable[[], None]:
        """Put copies in the place of all nodes; the answer puts the nodes back."""
        before = (self.node_info_map, self.node_info_list, self._tried)
        self.node_info_map = {name: info.clone() for name, info in self.node_info_map.items()}
        self._take([self.node_info_map[info.name] for info in before[1]])
        self._tried = {}

        def restore() -> None:
            self.node_info_map, _, self._tried = before
            self._take(before[1])

        return restore

    def _take(self, infos: list[NodeInfo]) -> None:
        self.node_info_list = infos
        self._lists = None
        self.epoch += 1
        self.changed_rows = []

    def rebuild_list(self, order: list[str]) -> None:
        """Put the nodes in this order."""
        infos = self.node_info_map
        self.node_info_list = [infos[name] for name in order if name in infos]
        self.row_of = {info.name: row for row, info in enumerate(self.node_info_list)}
        self._lists = None
        self.epoch += 1
        self.changed_rows = []


def _toggle(names: dict[str, None], name: str) -> None:
    if name in names:
        del names[name]
    else:
        names[name] = None
