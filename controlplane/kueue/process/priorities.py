"""WorkloadPriorityClasses in the process: the queue of their reconciler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.controllers.common.controller import Work
from controlplane.kueue.controllers.priority_classes import WorkloadPriorityClassController
from controlplane.kueue.process.kinds import WORKLOAD_CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from controlplane.api.tree import Tree
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Host
    from controlplane.kueue.process.carrying import Carried
    from controlplane.kueue.process.reader import CacheReader
    from controlplane.kueue.process.topologies import Carry
    from controlplane.kueue.process.wiring import Changed

QUEUE: Final = "kueue-workloadpriorityclass"


class PriorityClasses:
    """The reconciler of WorkloadPriorityClasses with its queue.

    Args:
        host: The controller's host.
        reader: Informer caches.
        carry: Carries a reconcile of a key of a queue out.
    """

    def __init__(self, host: Host, reader: CacheReader, carry: Carry) -> None:
        self._carry = carry
        self._controller = WorkloadPriorityClassController(reader)
        self._queue = host.queue(QUEUE)

    def changes(self) -> Mapping[Resource[Any], Changed]:
        """Return the event handlers by resource."""
        return {WORKLOAD_CLASSES: self._changed}

    def work(self) -> Sequence[Work]:
        """The queue and its reconcile."""
        return (Work(QUEUE, self._reconcile, workers=1),)

    def _changed(self, old: Tree | None, new: Tree | None) -> None:
        if new is not None and self._controller.needs_reconcile(old, new):
            self._queue.add(new["metadata"]["name"])

    def _reconcile(self, name: str) -> Carried[None]:
        yield from self._carry(self._queue, name, self._controller.reconcile(name))
