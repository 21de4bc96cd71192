"""Kubernetes issue 85726, pull request 141255: a recreated pod that arrives as one update ends the process.

The watch is interrupted. A pod that has a node is deleted and created again under its name, on another node.
The informer lists, compares by name, and tells of one update from the old pod to the new one. The scheduler's
cache finds that a pod has moved to another node, takes itself for corrupted, and ends the process; and, when the
list is the same again, ends it again.

The proposed fix: an update between different uids is a deletion and an addition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.times import SECOND
from controlplane.client.loops.reflector import BACKOFF_START_NS
from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.small_forms import SMALL, START_S, explored
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import THE_SCHEDULER_LIVES

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def recreated_elsewhere(user: User) -> None:
    """A pod is recreated on another node while the scheduler is cut off, and the server forgets its history."""
    pause = 0.25 if user.options[SMALL.key] else 1  # then they list while schedules are explored
    await user.sleep(pause)
    await user.create(pod("web", nodeName="node-1"))
    await user.sleep(pause)
    user.cut("apiserver", "scheduler")
    await user.delete("Pod", "web")
    await user.create(pod("web", nodeName="node-2"))
    user.crash("apiserver")  # the new one knows no history: who asks for it has to list again
    user.restart("apiserver")
    if user.options[SMALL.key]:
        await user.sleep(START_S - BACKOFF_START_NS / SECOND - user.ctx.now / SECOND)
    user.heal("apiserver", "scheduler")
    await user.sleep(20)


SCENARIO = Scenario(
    "race 141255",
    workload=recreated_elsewhere,
    build=scheduler_alone(),
    options=(SMALL,),
    explored=explored,
    invariants=(THE_SCHEDULER_LIVES,),
    reads_log=True,
    defaults={"node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="open upstream",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="4 of 4 runs: the scheduler ended with status 1",
    invariant=("the scheduler does not end itself"),
    scenario=SCENARIO,
    schedules=20,
)
