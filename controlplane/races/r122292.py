"""Kubernetes issue 109437, pull request 122292: removing the taint of a node added with it requeues no pod.

A pod was rejected for want of room. A new node appears, with a taint: it is looked at before the queue, and found to
be nothing for the pod. Then the taint goes, as it does on every new node. But no plugin that rejected the pod
asked for changes of taints: it waits for the flush, five minutes.

The fix: a plugin that registers for new nodes is also notified of changed taints. (Only without queueing hints,
which no longer look at a node before the queue.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import ROOM_IS_USED

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def new_nodes(user: User) -> None:
    """A pod waits for room; a node comes with a taint, which is taken away a little later."""
    from controlplane.cluster import node_tree

    await user.sleep(1)
    await user.create(pod("web", "4"))
    await user.sleep(user.choose(3, "how long"))
    node = node_tree("node-2", cpu="4")
    node["spec"] = {"taints": [{"key": "example.com/not-ready", "effect": "NoSchedule"}]}
    await user.create(node)
    await user.sleep(user.choose(3, "how long"))
    await user.patch("Node", "node-2", {"spec": {"taints": None}})
    await user.sleep(30)


SCENARIO = Scenario(
    "race 122292",
    workload=new_nodes,
    build=scheduler_alone(queueing_hints=False),
    invariants=(ROOM_IS_USED,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.30; fix: 1.30",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="half a minute after a taint went, no pod waits that fits",
    scenario=SCENARIO,
)
