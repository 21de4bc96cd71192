"""Kubernetes issue 130976, pull request 139884: Pop sleeps although a pod has just entered the backoff queue.

From 1.33 on Pop takes a pod from the backoff queue when the active one is empty. It looks into both, finds nothing,
and goes to sleep. Between look and sleep another task adds a pod to the backoff queue and signals, holding only
that queue's lock: no task is asleep yet to receive the signal. Pop sleeps beside a pod that it could take, until
the next signal or the end of the backoff.

The proposed fix signals under the active queue's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import POP_TAKES_WHAT_MAY_BE_POPPED

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def tainted_node(user: User) -> None:
    """A pod that fits nowhere, and a node whose soft taints change."""
    await user.sleep(1)
    await user.create(pod("big", "64"))
    for number in range(4):
        taint = {"key": "example.com/soft", "value": str(number), "effect": "PreferNoSchedule"}
        await user.patch("Node", "node-1", {"spec": {"taints": [taint]}})
    await user.sleep(20)


SCENARIO = Scenario(
    "race 139884",
    workload=tainted_node,
    build=scheduler_alone(),
    invariants=(POP_TAKES_WHAT_MAY_BE_POPPED,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="open upstream; bug from 1.33 on",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("no pod serves its backoff to the end while the scheduler has nothing else to do"),
    scenario=SCENARIO,
    schedules=400,
)
