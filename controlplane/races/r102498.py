"""Kubernetes issue 102339, pull request 102498: the nomination of a deleted preemptor stays for ever.

A preemptor is deleted while it is being tried. The deletion finds nothing to remove, for the pod is in flight; its
attempt fails, and the failure handler notes its nomination without asking whether the pod still exists. From
then on the node looks full to every pod of equal or lower priority.

The fix: a nomination is noted only for a pod that exists and has no node.
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


async def fleeting_preemptor(user: User) -> None:
    """A pod that would preempt another is deleted at once."""
    await user.sleep(1)
    await user.create(pod("low", "2", priority=0))
    await user.sleep(1)
    await user.create(pod("high", "2", priority=10))
    await user.delete("Pod", "high")


SCENARIO = Scenario(
    "race 102498",
    workload=fleeting_preemptor,
    build=scheduler_alone(),
    invariants=queue_holds(("I6",)),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: first releases of 1.19; fix: its patch releases",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("I6: once nothing moves any more, only pods that exist and wait are nominated"),
    scenario=SCENARIO,
)
