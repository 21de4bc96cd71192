"""Kubernetes issue 106361, pull request 106412: an assumed pod expires before its binding is seen.

The scheduler assumes that a pod will be on its node, and forgot that after thirty seconds if the watch had not
confirmed it. When the news of a binding is late, the room is given to another pod although the first one has it:
the node is overcommitted, and the kubelet refuses one of them.

The fix in steps: two minutes, a quarter of an hour, never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import NOTHING_IS_PROMISED_TWICE, pods

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def late_news(user: User) -> None:
    """As soon as one pod is bound, the scheduler hears nothing for six minutes; another pod waits for the room."""
    await user.sleep(1)
    await user.create(pod("full", "2", priority=9, nodeName="node-1"))
    await user.create(pod("one", "2", priority=9))
    await user.create(pod("two", "2", priority=0))
    await user.sleep(20)
    await user.delete("Pod", "full")
    while not pods(user.run)["one"].spec.node_name:
        await user.point()
    user.cut("apiserver", "scheduler")
    await user.sleep(400)
    user.heal("apiserver", "scheduler")
    await user.sleep(20)


SCENARIO = Scenario(
    "race 106412",
    workload=late_news,
    build=scheduler_alone(),
    invariants=(NOTHING_IS_PROMISED_TWICE,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: up to 1.24 (thirty seconds, then two minutes, then a quarter of an hour); fix: 1.25",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no node has allocated more CPU than it has",
    scenario=SCENARIO,
    schedules=20,
)
