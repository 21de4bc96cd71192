"""kueue 11014: a workload that was finished or deactivated goes back to its queue.

A workload is deactivated, or finishes, while the scheduler has it in its hands. The event takes it out of the queue,
where it is not. When the scheduler gives it back, only quota kept a workload out of the queue: it is tried again and
again, and others wait behind it (issue 10901).

With the fix only what may be admitted goes back (pull request 11014).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    finish,
    kueue_alone,
    patch,
    queues,
    workload,
)
from controlplane.scenarios.invariants.kueue import AT_REST_KUEUE_KNOWS_EACH_WORKLOAD

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10


async def finished(user: User) -> None:
    """A workload that does not fit is tried again, as its queue has changed, and finishes meanwhile."""
    await queues(user, team=1)
    await create(user, workload("big", "team", 2))
    await user.sleep(3)
    await patch(
        user, "ClusterQueue", "", "team", {"spec": {"preemption": {"withinClusterQueue": "Never"}}}
    )
    await user.sleep(1)
    await finish(user, "big", pending=True)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq11014",
    workload=finished,
    build=kueue_alone,
    invariants=(AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,),
)
RACE = Race(
    module=__name__,
    releases="up to 0.17; fixed in 0.18",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="what Kueue queues waits for quota, once quiet",
    scenario=SCENARIO,
    schedules=200,
)
