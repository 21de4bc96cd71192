"""Kubernetes pull request 111773: a preemption that finds too few candidates leaks its context.

To try preemption on many nodes at once, the scheduler derives a cancellable context from a parent that lives as
long as itself, and cancels it when enough candidates are found. With too few of them it is never cancelled: it
stays registered with its parent. Each failed preemption leaves one more, and the scheduler's memory grows for as
long as there are pods that preemption cannot help.

The fix cancels it in any case when the search ends (111810 does the same in two more places).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.contexts import EVERY_CONTEXT_ENDS

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def pods_of_some_importance(user: User) -> None:
    """Three pods that each fill a node, and two nodes: one node has no pod to preempt."""
    await user.sleep(1)
    for name, priority in (("low", 0), ("high", 10), ("middle", 5)):
        await user.create(pod(name, "2", priority=priority))
        await user.sleep(user.choose(3, "how long"))
    await user.sleep(400)


SCENARIO = Scenario(
    "race 111773",
    workload=pods_of_some_importance,
    build=scheduler_alone(),
    invariants=(EVERY_CONTEXT_ENDS,),
    defaults={"nodes": 2, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before the cherry-picks 111803, 111804, 111805; that these are 1.22 to 1.24 is inferred from dates",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="between its steps the scheduler's context has no child",
    scenario=SCENARIO,
    schedules=20,
)
