"""Elastic jobs in the process: the queue of what lets their pods go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.times import SECOND
from controlplane.client.resources import PODS
from controlplane.controllers.common.controller import Work
from controlplane.kueue.placement.elastic_ungater import ElasticUngater
from controlplane.kueue.process.kinds import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Host
    from controlplane.kueue.gates import Gates
    from controlplane.kueue.process.carrying import Carried
    from controlplane.kueue.process.reader import CacheReader
    from controlplane.kueue.process.topologies import Carry
    from controlplane.kueue.process.wiring import Changed

QUEUE: Final = "kueue-elastic-job-ungater"


class ElasticJobs:
    """The ungater of elastic jobs with its queue.

    Args:
        host: The controller's host.
        reader: Informer caches.
        gates: Kueue's feature gates.
        workers: Workers of the queue.
        carry: Carries a reconcile of a key of a queue out.
    """

    def __init__(
        self, host: Host, reader: CacheReader, gates: Gates, workers: int, carry: Carry
    ) -> None:
        self._workers = workers
        self._carry = carry
        self._ungater = ElasticUngater(reader, gates)
        self._queue = host.queue(QUEUE)

    def changes(self) -> Mapping[Resource[Any], Changed]:
        """Return the event handlers by resource."""
        return {WORKLOADS: self._workload, PODS: self._pod}

    def work(self) -> Sequence[Work]:
        """The queue and its reconcile."""
        return (Work(QUEUE, self._ungate, workers=self._workers, on_demand=True),)

    def _workload(self, old: Tree | None, new: Tree | None) -> None:
        key = None if new is None else self._ungater.workload_changed(new)
        if key is not None:
            self._queue.add_after(key, 0)

    def _pod(self, old: Tree | None, new: Tree | None) -> None:
        key = self._ungater.pod_changed(old, new)
        if key is not None:
            self._queue.add_after(key, SECOND)

    def _ungate(self, key: str) -> Carried[None]:
        yield from self._carry(self._queue, key, self._ungater.reconcile(key))
