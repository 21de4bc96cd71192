"""Listening to a run: every write to the objects that matter, as it is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.cluster_config import APISERVER
from controlplane.scenarios.check.cycles import cycle_in
from controlplane.scenarios.check.history import Change
from controlplane.scenarios.check.timeline import courses_of

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.scenarios.engine.run import Run

__all__ = ["Recorder"]

RESOURCES: Final = {
    "/registry/pods/": "pods",
    "/registry/deployments/": "deployments",
    "/registry/replicasets/": "replicasets",
    "/registry/statefulsets/": "statefulsets",
    "/registry/daemonsets/": "daemonsets",
    "/registry/controllers/": "replicationcontrollers",
    "/registry/minions/": "nodes",
}
"""The recorded kinds, by the prefix under which they are stored."""
EVENTS: Final = "/registry/events/"
MANY: Final = 200
ENDLESS: Final = 12
"""The number of returns to one state within an instant after which a cycle has no end."""
TOLD_BY: Final = ("descheduler", "cluster-autoscaler")
"""Processes whose Events tell why they evicted a pod."""


class Recorder:
    """Listens to the answers of the API servers, and keeps what they wrote. It decides nothing."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._store = run.cluster.store
        self._seen = self._store.revision
        self.changes: list[Change] = []
        self.endless = False
        """A workload is in a cycle within one instant of virtual time, so that time cannot advance."""
        self._instant = -1
        self._next_look = MANY
        """The number of writes at which to look next; it grows by half, so that looking costs little."""
        self.reasons: dict[str, str] = {}

    def hears(self, message: Any, target: Any) -> None:
        """Ignore requests (`actors.interception.Listener`)."""

    def hears_answer(self, request: Any, value: Any, error: BaseException | None) -> None:
        """Keep what was written until this answer."""
        del value, error
        if self._store.revision == self._seen or not request.peer.name.startswith(APISERVER):
            return
        seen, self._seen = self._seen, self._store.revision
        now, label = self._run.world.now, request.asker.label
        found = []
        for prefix, resource in RESOURCES.items():
            space = self._store.keyspaces.get(prefix)
            if space is not None and space.latest > seen:
                found += [(event, resource) for event in space.news_after(seen)]
        found.sort(key=lambda each: each[0].revision)
        for event, resource in found:
            self.changes.append(
                Change(now, part_of(label), resource, event.key, _tree(event.old), _tree(event.new))
            )
        if label.partition("/")[0] in TOLD_BY:
            self._keep_reasons(seen)
        self._look(now)

    def _look(self, now: int) -> None:
        """Look for a cycle within the current instant of virtual time, each time the writes have grown by half."""
        if self._instant != now:
            self._instant = now
            self._next_look = len(self.changes) + MANY
        elif len(self.changes) >= self._next_look:
            self._next_look = len(self.changes) * 3 // 2
            courses = courses_of(self.changes)
            self.endless = self.endless or any(
                cycle_in(each, now, now, enough=ENDLESS) is not None for each in courses.values()
            )

    def _keep_reasons(self, seen: int) -> None:
        space = self._store.keyspaces.get(EVENTS)
        if space is None or space.latest <= seen:
            return
        for event in space.news_after(seen):
            tree = _tree(event.new) or {}
            about = tree.get("involvedObject") or tree.get("regarding") or {}
            if about.get("kind") == "Pod" and event.old is None:
                key = f"{about.get('namespace')}/{about.get('name')}"
                self.reasons.setdefault(key, str(tree.get("reason") or ""))


def part_of(label: str) -> str:
    """The author of a write: process and controller, without the number of its worker."""
    process, _, task = label.partition("/")
    return f"{process}/{task.partition('#')[0].partition('.')[0]}"


def _tree(obj: Object | None) -> Tree | None:
    return None if obj is None else obj.tree
