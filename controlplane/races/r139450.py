"""Kubernetes issue 139186, pull request 139450: a pod requeued by its binding cycle is popped before Done, and lost.

A binding cycle fails and puts its pod back; an event that came meanwhile says that it is worth trying, so it goes
straight to the active queue. It is popped before the binding cycle has called Done: Pop takes it for a second
copy of a pod in flight and discards it. Then Done ends the flight. The pod waits for a node but is in no queue.

The fix: Done comes before the pod can be popped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_with
from controlplane.scenarios.invariants.scheduling import EVERY_WAITING_POD_IS_QUEUED

if TYPE_CHECKING:
    from controlplane.scenarios import User


def plugin() -> type:
    """A Permit plugin that holds pods."""
    from controlplane.scenarios.authoring.scheduler_plugins import Hold

    return Hold


async def waiting_pod(user: User) -> None:
    """A pod is held until its time is up, again and again, and events say that it is worth trying."""
    await user.sleep(1)
    tree = pod("web")
    tree["metadata"]["labels"] = {"hold": "yes"}
    await user.create(tree)
    for number in range(8):
        await user.sleep(3)
        labels = {"touched": str(number)}
        await user.attempt(user.patch("Node", "node-1", {"metadata": {"labels": labels}}))


SCENARIO = Scenario(
    "race 139450",
    workload=waiting_pod,
    build=scheduler_with(plugin),
    invariants=(EVERY_WAITING_POD_IS_QUEUED,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: from 1.32; fix: 1.38",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("once nothing moves any more, a pod that waits for a node is in a queue"),
    scenario=SCENARIO,
)
