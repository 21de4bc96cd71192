"""Kubernetes issue 118226, pull request 125578: an update queues a pod that is being scheduled.

The scheduler pops a pod and works on it. Meanwhile an update of the pod arrives. It is in no queue, so the
update handler takes it for a new one and puts it into the active queue: the pod is now in flight and queued
at once. The second copy is popped too, and either attempt may end in "is in the cache, so can't be assumed"
and in a status that says the pod could not be scheduled although it was.

The fix asks under the active queue's lock whether the pod is in flight; then the update is only kept for the
attempt's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling_queue import queue_holds

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def touched_pod(user: User) -> None:
    """A pod that fits no node, while a user labels it."""
    await user.sleep(1)
    await user.create(pod("big", "64"))
    for number in range(3):
        labels = {"touched": str(number)}
        await user.attempt(user.patch("Pod", "big", {"metadata": {"labels": labels}}))


SCENARIO = Scenario(
    "race 125578",
    workload=touched_pod,
    build=scheduler_alone(),
    invariants=queue_holds(("I5",)),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.31; fix: 1.31",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("I5: after every step of the scheduler, no pod is in flight and in a queue"),
    scenario=SCENARIO,
)
