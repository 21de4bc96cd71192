"""The pod lifecycle event generator: a relist once a second finds the changes since the one before.

Upstream: GenericPLEG (pkg/kubelet/pleg/generic.go) and the pod cache (pkg/kubelet/container/cache.go). Between
two relists the runtime is ahead of the cache; a worker that has just synced waits for an entry that is
newer. Relists without a waiting worker that would find nothing are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controlplane.api.times import SECOND
from controlplane.kubelet.pod.container_runtime import Sandbox, Seen
from controlplane.sharing.compact import compact

RELIST_PERIOD_S: Final = 1

Entry = Mapping[str, Seen]
"""The containers of a pod, by name."""
_NOTHING: Final[Entry] = {}


class PodCache:
    """The containers of a node's pods as of the last relist."""

    def __init__(self, sandboxes: Mapping[str, Sandbox], started: int) -> None:
        self._started = started
        self._sandboxes = sandboxes
        self._entries: dict[str, Entry] = {}
        self._moving: dict[str, None] = {}
        """Pods of which a relist may find something, now or when a program ends."""
        self._waiting: dict[str, None] = {}
        self._relisted_at: int | None = None

    def get(self, uid: str) -> Entry:
        """A pod's containers; none if there were none."""
        return self._entries.get(uid, _NOTHING)

    def newer_than(self, uid: str, time: int, now: int) -> bool:
        """Return whether there was a relist after this time, be it one that was left out. Upstream: GetNewerThan."""
        if self._relisted_at is not None and self._relisted_at > time:
            return True
        period = RELIST_PERIOD_S * SECOND
        tick = now - (now - self._started) % period
        if tick <= time:
            return False
        due = self.due_for(uid, now)
        return due is None or (due > tick and self._entries_hold(uid))

    def _entries_hold(self, uid: str) -> bool:
        sandbox = self._sandboxes.get(uid)
        return sandbox is None or _seen(sandbox) == self.get(uid)

    def wait(self, uid: str) -> None:
        """Request a relist: a worker waits for a newer entry of this pod."""
        self._waiting[uid] = None

    def look_at(self, uid: str) -> None:
        """Something may have happened to a pod's containers."""
        self._moving[uid] = None

    def forget(self, uid: str) -> None:
        """Nothing is left of the pod."""
        for known in (self._entries, self._moving, self._waiting):
            known.pop(uid, None)

    def due(self, now: int) -> int | None:
        """From when on a relist would find something, or is waited for; None if nothing is in sight."""
        if self._waiting:
            return now
        times = [self.due_for(uid, now) for uid in self._moving]
        return min((time for time in times if time is not None), default=None)

    def due_for(self, uid: str, now: int) -> int | None:
        """The same for one pod."""
        if uid in self._waiting:
            return now
        sandbox = self._sandboxes.get(uid)
        if sandbox is None:
            return None
        if _seen(sandbox) != self.get(uid):
            return now
        ends = [item.ends_at for item in sandbox.containers.values() if item.ends_at is not None]
        return min(ends, default=None)

    def only_recurs(self) -> bool:
        """Return whether all that relists would find is the end of a run that recurs."""
        if self._waiting:
            return False
        for uid in self._moving:
            sandbox = self._sandboxes.get(uid)
            if sandbox is None:
                continue
            if _seen(sandbox) != self.get(uid):
                return False
            ends = (item for item in sandbox.containers.values() if item.ends_at is not None)
            if not all(item.recurs for item in ends):
                return False
        return True

    def relist(self, now: int) -> tuple[list[str], list[str]]:
        """Ask the runtime; return the pods whose containers changed, and those for which a worker waits."""
        changed: list[str] = []
        for uid in list(self._moving):
            sandbox = self._sandboxes.get(uid)
            if sandbox is None:
                self.forget(uid)
                continue
            for container in sandbox.containers.values():
                container.settle(now)
            seen = _seen(sandbox)
            if seen != self.get(uid):
                self._entries[uid] = compact(seen)
                changed.append(uid)
            if all(item.ends_at is None for item in sandbox.containers.values()):
                del self._moving[uid]
        waited = list(self._waiting)
        self._waiting.clear()
        self._relisted_at = now
        return changed, waited


def _seen(sandbox: Sandbox) -> dict[str, Seen]:
    return {
        name: container.seen()
        for name, container in sandbox.containers.items()
        if container.attempt >= 0
    }
