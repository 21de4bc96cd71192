"""Kubernetes issue 84554, pull request 84578: a pod deleted while it waits in Permit goes on waiting.

A Permit plugin lets a pod wait. The pod is deleted. The waiting binding cycle was not notified: the pod waits on
until its time is up, and until then keeps its room and whatever was reserved for it.

The fix: the handler of the deletion rejects the waiting pod, and its binding cycle cleans up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_with
from controlplane.scenarios.invariants.scheduling_state import WHAT_IS_GONE_TAKES_NO_ROOM

if TYPE_CHECKING:
    from controlplane.scenarios import User


def plugin() -> type:
    """A Permit plugin that holds pods for five seconds."""
    from controlplane.scenarios.authoring.scheduler_plugins import Hold

    return Hold


async def held_pods_go(user: User) -> None:
    """Pods come and go, some of which are held in Permit; each fills the node."""
    await user.sleep(1)
    for number in range(4):
        web = pod(f"web-{number}", "2")
        web["metadata"]["labels"] = {"hold": ("no", "yes")[user.choose(2, "is held")]}
        await user.create(web)
        await user.sleep(1 + user.choose(4, "how long"))
        await user.delete("Pod", f"web-{number}")
        await user.sleep(user.choose(4, "how long"))
    await user.sleep(20)


SCENARIO = Scenario(
    "race 84578",
    workload=held_pods_go,
    build=scheduler_with(plugin),
    invariants=(WHAT_IS_GONE_TAKES_NO_ROOM,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.17; fix: 1.17",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="within two seconds of its deletion a pod takes no room in the scheduler's cache",
    scenario=SCENARIO,
)
