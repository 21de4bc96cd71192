"""Kubernetes issue 28883, pull request 28886: a pod whose binding failed keeps its room on the node for ever.

A pod is assumed on a node, and its binding fails. The error path put the pod back into the queue but never
forgot the assumption: the room stays taken, and the pod itself can never be assumed again ("is in the cache, so
can't be assumed").

The fix forgets the pod on every failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_with
from controlplane.scenarios.invariants.scheduling import EVERY_POD_IS_BOUND

if TYPE_CHECKING:
    from controlplane.scenarios import User


def plugin() -> type:
    """A PreBind plugin that refuses every pod once."""
    from controlplane.scenarios.authoring.scheduler_plugins import RefuseOnce

    return RefuseOnce


async def some_pods(user: User) -> None:
    """Two pods that fit."""
    await user.sleep(1)
    for number in range(2):
        await user.create(pod(f"web-{number}", "500m"))
    await user.sleep(20)


SCENARIO = Scenario(
    "race 28886",
    workload=some_pods,
    build=scheduler_with(plugin),
    invariants=(EVERY_POD_IS_BOUND,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.4; fix: 1.4",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("every pod that fits gets a node in the end"),
    scenario=SCENARIO,
    schedules=30,
)
