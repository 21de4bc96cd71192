"""Kubernetes issue 109236, pull request 109245: the nomination of a meanwhile bound pod stays for ever.

A preemptor fails an attempt, and is to be nominated to the node where it preempts. Meanwhile another client binds
it. The handlers of that event take the pod out of the queue with its nomination; then the failure handler records
the nomination. Nothing will ever take it back: the node looks fuller than it is to pods of its priority and below.

The fix: the nominator asks the lister, and nominates no pod that has a node.
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


async def bound_by_others(user: User) -> None:
    """Pods that preempt, which a second scheduler binds at about that time to a node of their own."""
    await user.sleep(1)
    await user.create(pod("low", "2", priority=0, nodeName="node-1"))
    await user.create(pod("rival", "2", priority=20, nodeName="node-2"))
    await user.sleep(1)
    await user.create(pod("high", "2", priority=10))
    for _ in range(user.choose(12, "when")):
        await user.point()
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-2"}
    tree = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "high"}, "target": target}
    await user.attempt(user.client.bind("default", "high", tree))


SCENARIO = Scenario(
    "race 109245",
    workload=bound_by_others,
    build=scheduler_alone(),
    invariants=queue_holds(("I6",)),
    defaults={"nodes": 2, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: 1.21 before its patch releases; fix: 1.21",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="I6: once nothing moves any more, no pod is nominated that is bound or gone",
    scenario=SCENARIO,
    schedules=600,
)
