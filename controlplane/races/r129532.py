"""Kubernetes issue 129532: the scheduler gives away room that a kubelet has allocated.

A pod has one CPU, asks for two, and its kubelet allocates them. Before its container has them, the spec goes back to
one. The scheduler took the larger of what the pod asks for and what it has: one. The kubelet counts two, which it
has allocated and not yet taken back. A pod that is scheduled into the difference is refused by the kubelet.

Fixed in 1.33: allocated resources count as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.scheduling import NO_PROMISE_IS_OVERLOOKED

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"

SIZES = ("500m", "1", "2", "3")


async def resizes(user: User) -> None:
    """Pods on a node are resized again and again."""
    for name in ("a", "b"):
        await user.create(pod(name, "500m", nodeName=NODE))
    await user.sleep(15)
    for _ in range(8):
        name = ("a", "b")[user.choose(2, "who")]
        await user.attempt(user.resize(name, "main", cpu=SIZES[user.choose(4, "to what size")]))
        await user.sleep(user.choose(3, "pause"))
    await user.sleep(40)


SCENARIO = Scenario(
    "race 129532",
    workload=resizes,
    invariants=(NO_PROMISE_IS_OVERLOOKED,),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="1.27 to 1.32",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no pod counts for less than its kubelet has allocated to it, as far as the scheduler has heard",
    scenario=SCENARIO,
    schedules=200,
)
