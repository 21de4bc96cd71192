"""Kubernetes issue 85677, pull request 106816: a nomination stays although preemption can no longer help.

A pod preempts others and is nominated to their node. The node goes away before its victims do. At its next
attempt the preemptor finds nothing to preempt; its nomination was not cleared, so that it names a node that does
not exist, and keeps autoscalers and schedulers waiting.

The fix: a preemption that finds no candidate clears the nomination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling_state import NOMINATIONS_NAME_NODES

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def node_is_lost(user: User) -> None:
    """A pod preempts another, which a finalizer keeps; then that node is lost, and the other one is full."""
    await user.sleep(1)
    low = pod("low", "2", priority=0, nodeName="node-1")
    low["metadata"]["finalizers"] = ["example.com/wait"]
    await user.create(low)
    await user.create(pod("rival", "2", priority=20, nodeName="node-2"))
    await user.sleep(1)
    await user.create(pod("high", "2", priority=10))
    await user.sleep(user.choose(3, "how long"))
    await user.delete("Node", "node-1")
    await user.sleep(400)  # the flush of the unschedulable pool comes after five minutes


SCENARIO = Scenario(
    "race 106816",
    workload=node_is_lost,
    build=scheduler_alone(),
    invariants=(NOMINATIONS_NAME_NODES,),
    defaults={"nodes": 2, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.24; fix: 1.24",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no pod that waits is nominated to a node that is gone",
    scenario=SCENARIO,
)
