"""Cluster queues and cohorts by name, and the edges between them.

A cohort that is only named by a child exists implicitly, as long as it has children. Follows
`pkg/cache/hierarchy/manager.go`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from controlplane.kueue.cache.quota import CohortNode, QueueNode

Q = TypeVar("Q", bound=QueueNode)


class Hierarchy(Generic[Q]):
    """All nodes of a cache or snapshot."""

    def __init__(self) -> None:
        self.cohorts: dict[str, CohortNode] = {}
        self.queues: dict[str, Q] = {}

    def set_queue_parent(self, queue: Q, parent: str) -> None:
        """Put a queue below a cohort; below none with an empty name."""
        self._detach_queue(queue)
        if parent:
            cohort = self._cohort(parent)
            cohort.queues[queue.name] = queue
            queue.parent = cohort

    def delete_queue(self, name: str) -> None:
        """Remove a queue, and its cohort if that was implicit and had no other child."""
        queue = self.queues.pop(name, None)
        if queue is not None:
            self._detach_queue(queue)

    def add_cohort(self, name: str) -> CohortNode:
        """Make a cohort explicit."""
        cohort = self._cohort(name)
        cohort.explicit = True
        return cohort

    def set_cohort_parent(self, cohort: CohortNode, parent: str) -> None:
        """Put a cohort below another; it becomes a root with an empty name."""
        self._detach_cohort(cohort)
        if parent:
            above = self._cohort(parent)
            above.cohorts[cohort.name] = cohort
            cohort.parent = above

    def delete_cohort(self, name: str) -> None:
        """Remove a cohort; one with children stays implicitly, as a root without quota."""
        cohort = self.cohorts.pop(name, None)
        if cohort is None:
            return
        self._detach_cohort(cohort)
        if not (cohort.queues or cohort.cohorts):
            return
        implicit = self.cohorts[name] = CohortNode(name)
        for queue in cohort.queues.values():
            queue.parent = implicit
        for child in cohort.cohorts.values():
            child.parent = implicit
        implicit.queues, implicit.cohorts = cohort.queues, cohort.cohorts

    def _cohort(self, name: str) -> CohortNode:
        if name not in self.cohorts:
            self.cohorts[name] = CohortNode(name)
        return self.cohorts[name]

    def _detach_queue(self, queue: Q) -> None:
        if queue.parent is not None:
            queue.parent.queues.pop(queue.name, None)
            self._clean(queue.parent)
            queue.parent = None

    def _detach_cohort(self, cohort: CohortNode) -> None:
        if cohort.parent is not None:
            cohort.parent.cohorts.pop(cohort.name, None)
            self._clean(cohort.parent)
            cohort.parent = None

    def _clean(self, cohort: CohortNode) -> None:
        if not (cohort.explicit or cohort.queues or cohort.cohorts):
            self.cohorts.pop(cohort.name, None)
