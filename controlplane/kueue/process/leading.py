"""The role of a replica of Kueue, and what a replica that does not lead does with its work.

All replicas keep their caches and queues up to date and answer for the visibility API. The scheduler, the requeue of
inadmissible workloads, the job reconcilers and the check of ProvisioningRequests run on the leader alone. Reconcilers
of Kueue's own kinds are told of changes everywhere: one that does not lead looks at the key again after the duration
of a lease. Follows `pkg/controller/core/leader_aware_reconciler.go` and `pkg/util/roletracker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attrs import evolve

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches, Host, Work
    from controlplane.kueue.controllers.effects import Reader
    from controlplane.kueue.process.carrying import Carried
    from controlplane.kueue.process.wiring import Changed

    Changes = Mapping[Resource[Any], Changed]

__all__ = ["FOLLOWER", "LEADER", "STANDALONE", "Leadership"]

STANDALONE: Final = "standalone"
LEADER: Final = "leader"
FOLLOWER: Final = "follower"


class Leadership:
    """The leadership of this replica, and the reconciliation after its election.

    Gate kq3612 (pull request 3612): up to 0.9 a replica that does not lead dropped its keys, so that what changed
    shortly before it was elected was never reconciled. With the fix it looks at them again.

    Args:
        host: The controller's host.
        reader: Informer caches.
        caches: The same, by resource.
        lease: Duration of the lease in nanoseconds, None where there is one replica.
    """

    def __init__(self, host: Host, reader: Reader, caches: Caches, lease: int | None) -> None:
        self._host = host
        self._reader = reader
        self._caches = caches
        self._lease = lease
        self._waiting: list[Changes] = []
        self._looks_again = host.fixes.fixed("kq3612")
        self.role = STANDALONE if lease is None else FOLLOWER

    @property
    def leads(self) -> bool:
        """Return whether this replica leads, or is the only one."""
        return self.role != FOLLOWER

    def only_when_leading(self, changes: Changes) -> Changes:
        """Return handlers that pass nothing on before this replica is elected; `elected` replays the caches."""
        if self._lease is None:
            return changes
        self._waiting.append(changes)
        return {resource: self._held(changed) for resource, changed in changes.items()}

    def _held(self, changed: Changed) -> Changed:
        def told(old: Any, new: Any) -> None:
            if self.leads:
                changed(old, new)

        return told

    def elected(self) -> None:
        """Lead from now on."""
        self.role = LEADER
        for changes in self._waiting:
            for resource, changed in changes.items():
                for each in sorted(self._caches.of(resource), key=lambda each: each.key):
                    changed(None, each.tree)
        self._waiting.clear()

    def aware(self, kind: str, work: Work) -> Work:
        """A queue of objects of a kind: reconciled by the leader, kept by the others."""
        lease = self._lease
        if lease is None:
            return work
        queue = self._host.queue(work.queue)

        def reconcile(key: str) -> Carried[None]:
            if self.leads:
                yield from work.reconcile(key)
                return
            namespace, _, name = key.rpartition("/")
            if self._looks_again and self._reader.get(kind, namespace, name) is not None:
                queue.add_after(key, lease, idle=True)

        return evolve(work, reconcile=reconcile, on_followers=True)
