"""Kubernetes issue 134217, pull request 134157: a deleted pod keeps its room until its binding fails.

A pod is assumed on a node, and its binding takes long since a volume has to be made. The pod is deleted. The
handler takes it from the queue, where it is not; the assumption stays, and with it the room, until the wait for the
volume is over (ten minutes by default). Pods of higher priority preempt others for room that is free.

The fix forgets the pod when its deletion is seen, or when it begins to terminate.
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
    """A PreBind plugin that takes a minute for some pods."""
    from controlplane.scenarios.authoring.scheduler_plugins import Provision

    return Provision


async def slow_volumes(user: User) -> None:
    """Pods come and go, some of which wait for a volume; each fills the node."""
    await user.sleep(1)
    for number in range(4):
        web = pod(f"web-{number}", "2")
        web["metadata"]["labels"] = {"provision": ("fast", "slow")[user.choose(2, "volume")]}
        await user.create(web)
        await user.sleep(1 + user.choose(6, "how long"))
        await user.delete("Pod", f"web-{number}")
    await user.sleep(20)


SCENARIO = Scenario(
    "race 134157",
    workload=slow_volumes,
    build=scheduler_with(plugin),
    invariants=(WHAT_IS_GONE_TAKES_NO_ROOM,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.35; fix: 1.35",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="within two seconds of its deletion a pod takes no room in the scheduler's cache",
    scenario=SCENARIO,
)
