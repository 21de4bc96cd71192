"""Kubernetes issue 96579, pull request 96582: a pod that was bound although the answer was lost is retried for ever.

A bind call reaches the API server, but its answer is lost with the connection. The scheduler takes the binding
for failed and puts the pod back; the informer tells that the pod has a node. Every further attempt ends with "is
in the cache, so can't be assumed", and goes on for ever.

The fix: the failure handler looks whether the pod has a node by now, and then lets it go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import NO_BOUND_POD_IS_QUEUED

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def broken_links(user: User) -> None:
    """Two pods that fit, and connections of the scheduler that are reset twice."""
    await user.sleep(1)
    for number in range(2):
        await user.create(pod(f"web-{number}", "500m"))
    for _ in range(2):
        for _ in range(user.choose(12, "when")):
            await user.point()
        user.break_link("scheduler", "apiserver")
    await user.sleep(60)


SCENARIO = Scenario(
    "race 96582",
    workload=broken_links,
    build=scheduler_alone(),
    invariants=(NO_BOUND_POD_IS_QUEUED,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.21; fix: 1.21",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="4 of 4 runs",
    invariant=("once nothing moves any more, no pod in a queue has a node"),
    scenario=SCENARIO,
    schedules=200,
)
