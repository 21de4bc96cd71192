"""The actual state: volumes attached to nodes, as far as known, and the reports to nodes.

Upstream: pkg/controller/volume/attachdetach/cache/actual_state_of_world.go. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from controlplane.controllers.storage.attachdetach.specs import Spec


@define
class Attached:
    """One volume on one node. Not `confirmed`: it may be attached, or not."""

    volume: str
    node: str
    spec: Spec | None
    confirmed: bool
    mounted: bool = True
    """As the node says; until it says anything, as if it were."""
    asked_since: int | None = None
    """Since when it ought to be detached."""

    @property
    def shared(self) -> bool:
        """Return whether several nodes may have it; of what is not known it is left to the driver to say."""
        return self.spec is None or self.spec.shared


@define
class _Report:
    volumes: dict[str, None] = field(factory=dict)
    due: bool = True


@define
class ActualState:
    """Attached volumes, and per node what its status is to show."""

    _attached: dict[tuple[str, str], Attached] = field(factory=dict)
    _reports: dict[str, _Report] = field(factory=dict)

    def mark_attached(self, volume: str, spec: Spec | None, node: str) -> None:
        """It is attached, and has to be reported in the node's status."""
        self._mark(volume, spec, node).confirmed = True
        self.report(volume, node)

    def mark_uncertain(self, volume: str, spec: Spec | None, node: str) -> None:
        """It may be attached."""
        self._mark(volume, spec, node).confirmed = False

    def _mark(self, volume: str, spec: Spec | None, node: str) -> Attached:
        found = self._attached.get((volume, node))
        if found is None:
            found = self._attached[volume, node] = Attached(volume, node, spec, False)
        elif spec is not None:
            found.spec = spec
        return found

    def mark_detached(self, volume: str, node: str) -> None:
        """It is attached no more."""
        self._attached.pop((volume, node), None)
        self.report_no_more(volume, node)

    def attached(self) -> list[Attached]:
        """All of them, those included that are uncertain."""
        return list(self._attached.values())

    def get(self, volume: str, node: str) -> Attached | None:
        """One of them, as it is by now."""
        return self._attached.get((volume, node))

    def is_attached(self, volume: str, node: str) -> bool:
        """Return whether that is known for sure."""
        found = self._attached.get((volume, node))
        return found is not None and found.confirmed

    def nodes_of(self, volume: str) -> list[str]:
        """Return the nodes to which it is attached for sure."""
        return [
            each.node
            for each in self._attached.values()
            if each.volume == volume and each.confirmed
        ]

    def set_mounted(self, node: str, in_use: Collection[str]) -> bool:
        """Take over a node's report of its volumes; return whether anything about them changed."""
        changed = False
        for (volume, where), each in self._attached.items():
            if where == node and each.mounted != (volume in in_use):
                each.mounted = volume in in_use
                changed = True
        return changed

    def ask_detach(self, each: Attached, now: int) -> int:
        """It ought to be detached; for how long already."""
        if each.asked_since is None:
            each.asked_since = now
        return now - each.asked_since

    # ------------------------------------------------------------------ status of nodes

    def report(self, volume: str, node: str) -> None:
        """The node's status is to show it."""
        if (volume, node) not in self._attached:
            return
        found = self._reports.setdefault(node, _Report())
        if volume not in found.volumes:
            found.volumes[volume] = None
            found.due = True

    def report_no_more(self, volume: str, node: str) -> None:
        """It is not to show it any more."""
        found = self._reports.get(node)
        if found is not None and volume in found.volumes:
            del found.volumes[volume]
            found.due = True

    def report_again(self, node: str) -> None:
        """The status of a node may have been lost: report its volumes again."""
        found = self._reports.get(node)
        if found is not None:
            found.due = True

    def due_reports(self) -> list[str]:
        """The nodes whose status has to be updated."""
        return [node for node, found in self._reports.items() if found.due]

    def take_report(self, node: str) -> list[str] | None:
        """Return the volumes to report to a node now, once; None: nothing new."""
        found = self._reports.get(node)
        if found is None or not found.due:
            return None
        found.due = False
        return list(found.volumes)
