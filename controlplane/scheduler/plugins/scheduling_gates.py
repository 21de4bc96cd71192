"""SchedulingGates: a pod with gates does not enter the active queue.

Upstream: `pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.framework import names
from controlplane.scheduler.framework.interface import (
    EnqueueExtensions,
    PreEnqueuePlugin,
    Status,
    unresolvable,
)

if TYPE_CHECKING:
    from controlplane.api.pod import Pod


class SchedulingGates(PreEnqueuePlugin, EnqueueExtensions):
    """Holds a pod while it has scheduling gates."""

    name = names.SCHEDULING_GATES

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Refuse a pod that still has gates."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        listed = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{listed}]").by(self.name)

    def events_to_register(self) -> list[ev.ClusterEventWithHint]:
        """The last gate is taken away."""
        event = ev.event_of(ev.POD, ev.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return [ev.ClusterEventWithHint(event, _gates_eliminated)]


def _gates_eliminated(pod: Pod, _old: Pod, new: Pod) -> ev.Hint:
    return ev.Hint.QUEUE if new is not None and new.uid == pod.uid else ev.Hint.SKIP
