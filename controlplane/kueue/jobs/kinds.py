"""The interface of a kind of job that the generic reconciler manages.

A further kind derives from `ManagedJob`: it says how its object is suspended, started and restored, which pod
sets it has, and when it is active, ready and finished. Everything else has defaults. An instance stands for
one object as it was read, and lives for one reconcile. Follows `pkg/controller/jobframework/interface.go`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, ClassVar

from attrs import define, field

from controlplane.api.tree import Tree
from controlplane.kueue.controllers.effects import Effect, MergePatch
from controlplane.kueue.jobs.ancestors import Surroundings
from controlplane.kueue.jobs.objects import Kind
from controlplane.kueue.jobs.pod_sets import Info

__all__ = ["Finished", "ManagedJob", "Steps", "Unretryable"]

Steps = Generator[Effect, Any, Any]
Finished = tuple[str, bool]
"""The message of a finished job, and whether it succeeded."""


class Unretryable(Exception):
    """A reconcile that ends here: only a change of an object makes it worth trying again."""


@define
class ManagedJob:
    """A job that can be suspended.

    Attributes:
        around: Surroundings.
        clock: Current time in nanoseconds.
        tree: The object.
    """

    kind: ClassVar[Kind]
    top_level: ClassVar[bool] = False
    """Owners of this kind are not followed."""

    around: Surroundings
    now: int
    tree: Tree = field(factory=dict)

    @property
    def name(self) -> str:
        """Name of the object."""
        name: str = self.tree["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        """Namespace of the object."""
        namespace: str = self.tree["metadata"].get("namespace", "")
        return namespace

    @property
    def uid(self) -> str:
        """Uid of the object."""
        uid: str = self.tree["metadata"].get("uid", "")
        return uid

    # -- every kind says ---------------------------------------------------------------------------

    def is_suspended(self) -> bool:
        """Return whether the job keeps its pods from running."""
        raise NotImplementedError

    def suspended(self, tree: Tree) -> Tree:
        """The object suspended."""
        raise NotImplementedError

    def pod_sets(self) -> list[Tree]:
        """The pod sets, as they stand in a Workload."""
        raise NotImplementedError

    def started(self, tree: Tree, infos: Sequence[Info]) -> Tree:
        """The object running, with its pod templates completed.

        Raises:
            PermanentError: The infos do not fit.
        """
        raise NotImplementedError

    def restored(self, tree: Tree, infos: Sequence[Info]) -> Tree:
        """The object with its pod templates as they were before the start."""
        raise NotImplementedError

    def is_active(self) -> bool:
        """Return whether pods of the job still run."""
        raise NotImplementedError

    def finished(self) -> Finished | None:
        """How the job ended, None while it has not."""
        raise NotImplementedError

    def pods_ready(self) -> bool:
        """Return whether all pods are ready or done."""
        raise NotImplementedError

    # -- how the reconciler reaches it; see `jobs.workloads.ObjectJob` -----------------------------

    def load(self, namespace: str, name: str) -> bool:
        """Read the object; return whether it is gone or going, so that only finalizers are left to remove.

        Raises:
            ReconcileError: The key is not that of such a job.
        """
        raise NotImplementedError

    def child_workloads(self) -> list[Tree]:
        """The Workloads of the job."""
        raise NotImplementedError

    def find_matching(self) -> Steps:
        """The Workload of the job as it is now, and those to delete.

        Raises:
            Unretryable: The job must wait for another event.
        """
        raise NotImplementedError

    def constructed(self) -> Steps:
        """A new Workload for the job.

        Raises:
            Unretryable: The job is not complete.
        """
        raise NotImplementedError

    def own(self, workload: Tree) -> Steps:
        """Make the job an owner of a Workload that a user made; the Workload as stored."""
        raise NotImplementedError

    def is_equivalent(self, workload: Tree) -> bool:
        """Return whether a Workload is that of the job as it is now."""
        raise NotImplementedError

    def run(self, infos: Sequence[Info], message: str) -> Steps:
        """Start the job.

        Raises:
            PermanentError: It can never start like this.
        """
        raise NotImplementedError

    def each_object(self) -> list[Tree]:
        """The objects that the job consists of."""
        return [self.tree]

    # -- a kind may say ----------------------------------------------------------------------------

    def is_skipped(self) -> bool:
        """Return whether the object is not Kueue's business after all."""
        return False

    def reclaimable_pods(self) -> list[Tree] | None:
        """Pods that need their quota no more, by pod set; None when the kind does not say."""
        return None

    def priority_class(self) -> str | None:
        """The PriorityClass of the job, None to take that of its first pod template that has one."""
        return None

    def stop(self, infos: Sequence[Info], reason: str, message: str) -> Steps:
        """Stop the job; the objects that were stopped by this call."""
        if self.is_suspended():
            return []
        old = self.tree
        new = self.suspended(old)
        self.tree = yield MergePatch(
            self.kind.kind, old, self.restored(new, infos) if infos else new
        )
        return [self.tree]

    def finalize(self) -> Steps:
        """Let go of the object when the job is over."""
        return
        yield

    def custom_conditions(self, workload: Tree) -> list[Tree] | None:
        """Further conditions of the Workload, None when none of them changes."""
        return None

    def queue_is_followed(self) -> bool:
        """Return whether a changed queue name is passed on to the Workload."""
        return True
