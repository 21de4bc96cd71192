"""Owners of a job that Kueue manages. Follows `FindAncestorJobManagedByKueue` of `pkg/controller/jobframework`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from controlplane.api.labels import Selector
from controlplane.api.tree import Tree
from controlplane.kueue.controllers.effects import Reader
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.objects import Kind, labels_of, queue_name

__all__ = ["AncestorError", "ChainTooLong", "Surroundings"]

JOB: Final = Kind("batch", "v1", "Job")
POD: Final = Kind("", "v1", "Pod")
DEPLOYMENT: Final = Kind("apps", "v1", "Deployment")
STATEFUL_SET: Final = Kind("apps", "v1", "StatefulSet")
REPLICA_SET: Final = Kind("apps", "v1", "ReplicaSet")
BUILT_IN: Final = {
    "batch/job": JOB,
    "pod": POD,
    "deployment": DEPLOYMENT,
    "statefulset": STATEFUL_SET,
}
"""Frameworks by the name that the configuration gives them."""
KNOWN: Final = (*BUILT_IN.values(), REPLICA_SET)
"""Built-in kinds through which owners are followed, enabled or not."""
LONGEST_CHAIN: Final = 10


class AncestorError(Exception):
    """Owners could not be followed to their end."""


class ChainTooLong(AncestorError):
    """More owners than are followed."""


@frozen
class Surroundings:
    """The settings and readers of decisions about all jobs.

    Args:
        reader: Informer caches.
        gates: Feature gates.
        frameworks: Enabled kinds by name of their framework.
        known: Kinds through which owners are followed, enabled or not.
        manage_without_queue: Manage jobs without a queue name, too (manageJobsWithoutQueueName).
        namespaces: The namespaces with managed jobs, None for all.
        default_queue_exists: Return whether a namespace has a local queue `default`.
    """

    reader: Reader
    gates: Gates
    frameworks: dict[str, Kind]
    manage_without_queue: bool
    namespaces: Selector | None
    default_queue_exists: Callable[[str], bool]
    known: tuple[Kind, ...] = KNOWN

    def _enabled(self, owner: Tree) -> bool:
        return any(_matches(owner, kind) for kind in self.frameworks.values())

    def owner_is_managed(self, tree: Tree) -> bool:
        """Return whether the controller of an object is of an enabled kind."""
        owner = controller_of(tree)
        return owner is not None and self._enabled(owner)

    def namespace_is_managed(self, namespace: str) -> bool:
        """Return whether jobs in a namespace are managed.

        Raises:
            AncestorError: The namespace does not exist.
        """
        if self.namespaces is None:
            return True
        found = self.reader.get("Namespace", "", namespace)
        if found is None:
            raise AncestorError(f'failed to get namespace: namespaces "{namespace}" not found')
        return self.namespaces.matches(labels_of(found))

    def managed_ancestor(self, job: Tree) -> Tree | None:
        """The topmost owner that Kueue manages, None without one.

        Raises:
            AncestorError: An owner is missing, owns itself, or the chain is too long.
        """
        seen: list[str] = []
        top: Tree | None = None
        current, namespace = job, job["metadata"].get("namespace", "")
        while True:
            uid = current["metadata"].get("uid", "")
            if uid in seen:
                raise AncestorError("cyclic ownership")
            seen.append(uid)
            owner = controller_of(current)
            if owner is None or not any(_matches(owner, kind) for kind in self.known):
                return top
            parent = self.reader.get(owner["kind"], namespace, owner["name"])
            if parent is None:
                resource = f"{owner['kind'].lower()}s"
                group = owner["apiVersion"].rpartition("/")[0]
                named = f"{resource}.{group}" if group else resource
                text = f'workload owner not found\n{named} "{owner["name"]}" not found'
                raise AncestorError(text)
            if parent["metadata"].get("uid", "") != owner.get("uid", ""):
                return top
            if self._enabled(owner) and (self.manage_without_queue or queue_name(parent)):
                top = parent
            current = parent
            if len(seen) > LONGEST_CHAIN:
                raise ChainTooLong("managed owner chain limit reached")

    def should_be_suspended(self, job: Tree) -> bool:
        """Return whether a new job starts suspended.

        Raises:
            AncestorError: Its owners or its namespace are not known.
        """
        deleting = job["metadata"].get("deletionTimestamp")
        if deleting and self.gates.enabled("SkipAncestorCheckForDeletedWorkloads"):
            return False
        if self.managed_ancestor(job) is not None:
            return False
        if queue_name(job):
            return True
        return self.manage_without_queue and self.namespace_is_managed(
            job["metadata"].get("namespace", "")
        )


def controller_of(tree: Tree) -> Tree | None:
    """The reference to the controller of an object, None without one."""
    for owner in tree["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: Tree = owner
            return found
    return None


def _matches(owner: Tree, kind: Kind) -> bool:
    return bool(owner["apiVersion"] == kind.api_version and owner["kind"] == kind.kind)
