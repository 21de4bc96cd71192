"""Cluster events: what changed, in the vocabulary of queueing hints.

Upstream: `pkg/scheduler/framework/{types,events}.go`, kube-scheduler `framework/types.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from controlplane.api.core import Pod

# Action bits, in upstream's order: the numeric order takes part in event matching.
ADD = 1 << 0
DELETE = 1 << 1
UPDATE_NODE_ALLOCATABLE = 1 << 2
UPDATE_NODE_LABEL = 1 << 3
UPDATE_NODE_TAINT = 1 << 4
UPDATE_NODE_CONDITION = 1 << 5
UPDATE_NODE_ANNOTATION = 1 << 6
UPDATE_NODE_DECLARED_FEATURE = 1 << 7
UPDATE_POD_LABEL = 1 << 8
UPDATE_POD_SCALE_DOWN = 1 << 9
UPDATE_POD_TOLERATION = 1 << 10
UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
ALL = (1 << 13) - 1
# Younger than 1.36, and only reported where a gate asks for it: beyond ALL, so that nothing else changes.
UPDATE_POD_SCALE_UP = 1 << 13
UPDATE_NODE_PREEMPTION_POLICY = 1 << 14
UPDATE = ALL & ~(ADD | DELETE)

_ACTION_NAMES = {
    ADD: "Add",
    DELETE: "Delete",
    UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    UPDATE_NODE_LABEL: "UpdateNodeLabel",
    UPDATE_NODE_TAINT: "UpdateNodeTaint",
    UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    UPDATE_POD_LABEL: "UpdatePodLabel",
    UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    UPDATE_POD_TOLERATION: "UpdatePodToleration",
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    UPDATE_NODE_PREEMPTION_POLICY: "UpdateNodePreemptionPolicy",
    ALL: "All",
    UPDATE: "Update",
}
ACTIONS = {name: bits for bits, name in _ACTION_NAMES.items()}

POD = "Pod"
ASSIGNED_POD = "AssignedPod"
UNSCHEDULABLE_POD = "UnschedulablePod"
NODE = "Node"
PERSISTENT_VOLUME = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
CSI_NODE = "storage.k8s.io/CSINode"
CSI_DRIVER = "storage.k8s.io/CSIDriver"
VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
STORAGE_CLASS = "storage.k8s.io/StorageClass"
RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
DEVICE_CLASS = "resource.k8s.io/DeviceClass"
POD_GROUP = "scheduling.k8s.io/PodGroup"
WILDCARD = "*"

# What a plugin without EventsToRegister is registered for.
ALL_RESOURCES = (
    POD,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    STORAGE_CLASS,
    RESOURCE_CLAIM,
    DEVICE_CLASS,
)

# Labels that only the queue uses.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"
FORCE_ACTIVATE = "ForceActivate"


@cache
def action_name(action: int) -> str:
    """Print an action mask: its own name, or the names of its bits joined with "|"."""
    name = _ACTION_NAMES.get(action)
    if name is not None:
        return name
    bits = (bit for bit in (1 << i for i in range(15)) if action & bit)
    return "|".join(_ACTION_NAMES[bit] for bit in bits)


@cache
def _label(resource: str, action: int) -> str:
    return resource + action_name(action)


@attrs.frozen(cache_hash=True)
class ClusterEvent:
    """A kind of change: one resource and a mask of actions.

    `label` is the name used in metrics and logs, such as `NodeAdd`.
    """

    resource: str
    action: int
    custom_label: str = ""
    label: str = attrs.field(init=False, eq=False, repr=False)

    @label.default
    def _make_label(self) -> str:
        return self.custom_label or _label(self.resource, self.action)

    @property
    def is_wildcard(self) -> bool:
        """Return whether this is the event that stands for any change at all."""
        return self.resource == WILDCARD and self.action == ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Return whether this registered pattern covers `incoming`.

        The comparison of the two masks as numbers is upstream's: a general Update matches only
        patterns that hold the whole Update mask or are numerically larger.
        """
        if self.resource == WILDCARD and self.action == ALL:
            return True
        mine, theirs = self.resource, incoming.resource
        if not (
            mine in (theirs, WILDCARD)
            or (mine == POD and theirs in (ASSIGNED_POD, UNSCHEDULABLE_POD))
        ):
            return False
        return self.action & incoming.action != 0 and incoming.action <= self.action


@cache
def event_of(resource: str, action: int) -> ClusterEvent:
    """The event of this resource and these actions: one object in all of the process, fast to compare."""
    return ClusterEvent(resource, action)


class Hint(IntEnum):
    """The answer of a queueing hint."""

    SKIP = 0
    QUEUE = 1


class HintError(Exception):
    """A hint could not decide; the queue treats it as Queue."""


HintFn = Callable[["Pod", Any, Any], Hint]


@attrs.frozen
class ClusterEventWithHint:
    """One registration of a plugin: the event and, optionally, the function that looks closer."""

    event: ClusterEvent
    hint: HintFn | None = None


UNSCHEDULED_POD_ADD = event_of(UNSCHEDULABLE_POD, ADD)
UNSCHEDULED_POD_UPDATE = event_of(UNSCHEDULABLE_POD, UPDATE)
ASSIGNED_POD_ADD = event_of(ASSIGNED_POD, ADD)
ASSIGNED_POD_DELETE = event_of(ASSIGNED_POD, DELETE)
NODE_ADD = event_of(NODE, ADD)
NODE_DELETE = event_of(NODE, DELETE)
WILDCARD_EVENT = event_of(WILDCARD, ALL)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(WILDCARD, ALL, "UnschedulableTimeout")
FORCE_ACTIVATE_EVENT = ClusterEvent(WILDCARD, ALL, FORCE_ACTIVATE)
