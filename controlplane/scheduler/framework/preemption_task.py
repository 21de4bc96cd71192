"""Actions for the victims of a preemption, as writes for an actor.

Upstream: `pkg/scheduler/framework/preemption/executor.go`. The order of an asynchronous task:
clear the nominations of less important pods; evict all victims but the last (in any order); call
`DefaultPreemption.evict_last`, evict the last; call `finish`; on any error activate the preemptor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from controlplane.scheduler.framework.api_calls import StatusPatchCall
from controlplane.scheduler.framework.names import DEFAULT_PREEMPTION
from controlplane.scheduler.framework.nominating import CLEAR_NOMINATION
from controlplane.scheduler.framework.writes import EventIntent, StatusPatch, condition_patch

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.api.scheduling import PodGroup

IN_MEMORY_SUFFIX = " (in kube-scheduler memory)."


@attrs.frozen
class PreemptionTask:
    """Victims to evict on a node, most important first, and nominations to clear."""

    preemptor: Pod
    node_name: str
    victims: tuple[Pod, ...]
    nominated: tuple[Pod, ...]
    """Less important pods nominated to the node."""
    group: PodGroup | None = None
    """The group that preempts, if it is a whole one; `preemptor` is its first pod then."""
    members: tuple[Pod, ...] = ()
    """The pods of that group which wait."""
    plugin: str = DEFAULT_PREEMPTION
    """The plugin that decided on it."""
    inline: bool = False
    """The victims are evicted within the scheduling cycle, whatever the feature gate says."""

    @property
    def uid(self) -> str:
        """UID of the pod or group that preempts."""
        return self.preemptor.uid if self.group is None else self.group.metadata.uid

    @property
    def kind(self) -> str:
        """The preemptor, as events and conditions name it."""
        return "pod" if self.group is None else "podgroup"

    @property
    def key(self) -> str:
        """Namespace and name of what preempts."""
        about = self.preemptor if self.group is None else self.group
        return f"{about.metadata.namespace}/{about.metadata.name}"

    @property
    def waiting(self) -> tuple[Pod, ...]:
        """The pods that room is made for."""
        return (self.preemptor,) if self.group is None else self.members


def clear_nomination(pod: Pod) -> StatusPatchCall:
    """The call that takes the pod's nomination away."""
    return StatusPatchCall(pod, None, CLEAR_NOMINATION)


def disruption_patch(
    victim: Pod, scheduler_name: str, now: int, kind: str = "pod"
) -> StatusPatch | None:
    """The patch that marks the victim before it is deleted; None when it is marked already."""
    wanted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{scheduler_name}: preempting to accommodate a higher priority {kind}",
    }
    conditions: Any = (victim.tree.get("status") or {}).get("conditions") or []
    change = condition_patch(conditions, wanted, victim.metadata.generation, now)
    if not change:
        return None
    return StatusPatch(victim.namespace, victim.name, {"status": change}, victim.uid)


def preempted_event(victim: Pod, task: PreemptionTask, *, in_memory: bool = False) -> EventIntent:
    """The event on the victim."""
    note = f"Preempted by {task.kind} {task.uid} on node {task.node_name}"
    if in_memory:
        note += IN_MEMORY_SUFFIX
    return EventIntent(victim, "Normal", "Preempted", "Preempting", note)
