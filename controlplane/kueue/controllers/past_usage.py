"""Past usage of local queues: when it is sampled, and how the penalty of an admitted Workload becomes part of it.

Follows `localqueue_controller.go` and `workload_controller.go` of `pkg/controller/core`, as far as they serve
fair sharing of admission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Protocol

from attrs import frozen

from controlplane.api.quantity import parse
from controlplane.api.times import SECOND, format_time
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.kueue.amounts import FlavorResource, quantity
from controlplane.kueue.amounts import add as added
from controlplane.kueue.controllers.effects import ReconcileError
from controlplane.kueue.controllers.queue_objects import SharingTick
from controlplane.kueue.controllers.workload_events import Penalties
from controlplane.kueue.queues.usage import Entry, FairSharing, Ledger, Resources, decayed, total
from controlplane.kueue.workload.status import key_of, status_of

__all__ = ["PastUsage"]


class Counters(Protocol):
    """The counters of a local queue."""

    @property
    def used(self) -> Mapping[FlavorResource, int]:
        """Usage of its admitted Workloads."""
        ...


class UsageCache(Protocol):
    """The scheduler cache, as past usage reads it; see `kueue.cache.cache.Cache`."""

    def local_queue(self, cluster_queue: str, key: str) -> Counters | None: ...
    def uses_admission_fair_sharing(self, name: str) -> bool: ...


@frozen
class PastUsage(Penalties):
    """Keeps the ledger of past usage up to date.

    Args:
        ledger: The usage of all local queues.
        cache: Scheduler cache.
        sharing: Half-life and interval.
        reorder: Restores the order of a cluster queue whose local queues' usage changed.
    """

    ledger: Ledger
    cache: UsageCache
    sharing: FairSharing
    reorder: Callable[[str], None]

    # -- samples -----------------------------------------------------------------------------------

    def sample(self, queue: Tree, now: int) -> SharingTick:
        """Compute the usage of a local queue anew, once in an interval.

        A pending penalty makes it happen earlier. The status goes first; `written` enters the usage.

        Raises:
            ReconcileError: The cache does not know the local queue.
        """
        key, interval = key_of(queue), round(self.sharing.sampling_interval * SECOND)
        entry, was_there = self._entry(key, queue, now)
        since = now - entry.last_update
        if was_there and since < interval and not self.ledger.has_penalty(key):
            return SharingTick(None, interval - since)
        cluster_queue = queue["spec"].get("clusterQueue", "")
        used = None if self.sharing.half_life == 0 else self._used(cluster_queue, key)
        if used is None and self.sharing.half_life:
            raise ReconcileError("local queue not found in the cache")
        status = {
            "consumedResources": {
                name: str(each) for name, each in self._consumed(entry, used, now).items()
            },
            "lastUpdate": format_time(now),
        }
        return SharingTick(status, interval, partial(self._write, key, cluster_queue, used, now))

    def _entry(self, key: str, queue: Tree, now: int) -> tuple[Entry, bool]:
        """The entry of a local queue with the history of its status in it, and if there was one before."""
        stored = (status_of(queue).get("fairSharing") or EMPTY_MAP).get(
            "admissionFairSharingStatus"
        ) or EMPTY_MAP
        consumed = stored.get("consumedResources") or EMPTY_MAP
        history = {name: parse(str(each)) for name, each in consumed.items()}
        found = self.ledger.get(key)
        if found is None:
            entry = Entry(history, last_update=now, accounted=True)
        elif found.accounted:
            return found, True
        else:
            entry = replace(found, consumed=total(found.consumed, history), accounted=True)
        self.ledger.put(key, entry)
        return entry, found is not None

    def _consumed(self, entry: Entry, used: Resources | None, now: int) -> Resources:
        if used is None:
            return {}
        elapsed = max(0, now - entry.last_update) / SECOND
        return decayed(entry.consumed, used, elapsed, self.sharing.half_life)

    def _write(self, key: str, cluster_queue: str, used: Resources | None, now: int) -> None:
        entry = self.ledger.get(key) or Entry(last_update=now, accounted=True)
        last = now if used is None else max(now, entry.last_update)
        consumed = self._consumed(entry, used, now)
        self.ledger.put(key, replace(entry, consumed=consumed, last_update=last))
        self.reorder(cluster_queue)

    def _used(self, cluster_queue: str, key: str) -> Resources | None:
        """Usage of the admitted Workloads of a local queue, by resource."""
        counters = self.cache.local_queue(cluster_queue, key)
        if counters is None:
            return None
        sums: dict[str, int] = {}
        for (_, resource), amount in counters.used.items():
            sums[resource] = added(sums.get(resource, 0), amount)
        return {name: quantity(name, each) for name, each in sums.items()}

    def local_queue_changed(self, old: Tree | None, new: Tree | None) -> None:
        """Forget the usage of a LocalQueue that is gone."""
        if new is None and old is not None:
            self.ledger.delete(key_of(old))

    # -- penalties ---------------------------------------------------------------------------------

    def settle(self, workload: Tree, now: int) -> None:
        """Turn the penalty of a Workload that was admitted into consumed usage."""
        cluster_queue = (status_of(workload).get("admission") or EMPTY_MAP).get("clusterQueue", "")
        if not self.cache.uses_admission_fair_sharing(cluster_queue):
            return
        namespace = workload["metadata"].get("namespace", "")
        local = f"{namespace}/{workload['spec'].get('queueName') or ''}"
        used = self._used(cluster_queue, local)
        if used is None:
            return
        entry = self.ledger.get(local) or Entry(last_update=now)
        consumed = self._consumed(entry, used, now)
        rest, penalty = entry.without_penalty(key_of(workload))
        self.ledger.put(
            local,
            replace(
                rest,
                consumed=total(consumed, penalty or {}),
                last_update=max(now, entry.last_update),
            ),
        )

    def drop(self, local_queue: str, key: str) -> None:
        """Forget the penalty of a Workload that will not be admitted here."""
        self.ledger.drop_penalty(local_queue, key)
