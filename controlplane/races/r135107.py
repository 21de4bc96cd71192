"""Kubernetes issue 135107: the capacity that a deferred resize asks for is withheld from all pods.

A pod asks for more than its node has left, and its kubelet defers that. The scheduler counts the pod with what it
asks for all the same. The node has room that is neither used nor allocated: small pods wait, for ever if the resize
does.

Open; upstream holds that it works as intended, as the room is what the resize waits for (KEP-5836 makes that true).
The repair here counts such a pod with what is allocated to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.scheduling import FREE_ROOM_IS_USED

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"

SIZES = ("500m", "1", "2", "3500m")


async def resizes_and_others(user: User) -> None:
    """Pods on a node are resized, and others come that want a node."""
    for name in ("a", "b"):
        await user.create(pod(name, "500m", nodeName=NODE))
    await user.sleep(15)
    for number in range(5):
        if user.choose(2, "resize or create"):
            await user.attempt(user.create(pod(f"new-{number}", SIZES[user.choose(2, "size")])))
        else:
            name = ("a", "b")[user.choose(2, "who")]
            await user.attempt(user.resize(name, "main", cpu=SIZES[user.choose(4, "to what")]))
        await user.sleep(user.choose(4, "pause"))
    await user.sleep(60)


SCENARIO = Scenario(
    "race 135107",
    workload=resizes_and_others,
    invariants=(FREE_ROOM_IS_USED,),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="open, as intended; with in-place resize (1.33 on)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no pod waits for room that no kubelet has allocated",
    scenario=SCENARIO,
    schedules=100,
)
