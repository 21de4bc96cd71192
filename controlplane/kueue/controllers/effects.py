"""Effects that a reconciler of Kueue yields, and what it needs of its surroundings.

A reconciler is a generator: it yields an effect and is sent the object as it was stored, or a failure of the
request (`client.errors`) is thrown into it. Objects are plain trees; a caller maps kinds to resources.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias

from attrs import frozen

from controlplane.api.tree import Tree
from controlplane.client.errors import ApiError, is_not_found

__all__ = [
    "ApplyStatus",
    "Create",
    "Delete",
    "Done",
    "Effect",
    "Emit",
    "MergePatch",
    "Queues",
    "Reader",
    "Reconcile",
    "ReconcileError",
    "Update",
    "WorkloadCache",
    "ignoring_not_found",
]


@frozen
class ApplyStatus:
    """Apply a status with force: `body` is the whole apply body, `manager` its field manager."""

    kind: str
    body: Tree
    manager: str


@frozen
class Update:
    """Write a whole object; `subresource` is empty or "status"."""

    kind: str
    body: Tree
    subresource: str = ""


@frozen
class MergePatch:
    """Write what differs from `old` by a JSON merge patch.

    With `strict` the patch carries the resource version of `old`, so that any change in between is a conflict.
    """

    kind: str
    old: Tree
    body: Tree
    subresource: str = ""
    strict: bool = True


@frozen
class Create:
    """Create an object."""

    kind: str
    body: Tree


@frozen
class Delete:
    """Delete an object; `propagation` is empty or a propagation policy."""

    kind: str
    body: Tree
    propagation: str = ""


@frozen
class Emit:
    """Record an event about an object; nothing is sent back."""

    kind: str
    regarding: Tree
    type: str
    reason: str
    message: str


Effect: TypeAlias = ApplyStatus | Update | MergePatch | Create | Delete | Emit


@frozen
class Done:
    """End of a reconcile; `requeue_after` in nanoseconds, 0 for none."""

    requeue_after: int = 0


Reconcile: TypeAlias = Generator[Effect, Any, Done]


class ReconcileError(Exception):
    """A reconcile that failed without a failed request: it is tried again with backoff."""


class Reader(Protocol):
    """The informer caches of Kueue's process."""

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        """The object, None when it does not exist."""
        ...

    def list(self, kind: str, namespace: str = "") -> Sequence[Tree]:
        """The objects of a kind, of one namespace or of all, by name."""
        ...


class Queues(Protocol):
    """The queue manager, as the reconcilers call it; each call is one lock region of it."""

    def cluster_queue_for(self, workload: Tree) -> tuple[str, bool]:
        """Name of the cluster queue behind the Workload's local queue, and whether it exists."""
        ...

    def no_fit_reason(self, workload: Tree) -> str | None:
        """The reason with which an equivalent workload failed lately, None if none did."""
        ...

    def add_or_update(self, workload: Tree) -> str | None:
        """Queue a Workload (with adjusted resources); the text of an error, None on success."""
        ...

    def delete(self, key: str) -> None:
        """Take a Workload out of its queue."""
        ...

    def forget(self, key: str) -> None:
        """Take a Workload out of its queue and forget to which queue it belonged."""
        ...

    def add_finished(self, workload: Tree) -> None:
        """Count a finished Workload."""
        ...

    def release(self, key: str, action: Callable[[], None]) -> None:
        """Run an action under the lock, then ask for a flush of the Workload's cohort."""
        ...

    def add_or_update_locked(self, workload: Tree) -> str | None:
        """As `add_or_update`, from an action of `release`."""
        ...

    def delete_second_pass(self, key: str) -> None:
        """Drop a Workload from the second pass, from an action of `release`."""
        ...

    def queue_second_pass(self, workload: Tree, iteration: int) -> None:
        """Queue a Workload for the second pass if it needs one."""
        ...


class WorkloadCache(Protocol):
    """The scheduler cache, as the workload reconciler calls it."""

    def add_or_update(self, workload: Tree) -> bool:
        """Count the usage of a Workload; False if its cluster queue is not known."""
        ...

    def delete_workload(self, key: str) -> None:
        """Stop counting the usage of a Workload."""
        ...

    def cluster_queue_active(self, name: str) -> bool:
        """Return whether the cluster queue can admit."""
        ...


def ignoring_not_found(reconcile: Reconcile) -> Reconcile:
    """End a reconcile quietly when the object that it writes is gone."""
    try:
        return (yield from reconcile)
    except ApiError as error:
        if not is_not_found(error):
            raise
        return Done()
