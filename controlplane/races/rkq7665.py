"""kueue 7665: a workload whose preemptions failed is parked.

The scheduler asks for the preemption of what stands in the way of a workload, and waits for the quota. When the
requests fail - the connection breaks, the server is away - nothing is preempted, no quota is released, and no event
follows. The workload was parked all the same, in a queue that passes over what does not fit, and nothing tried it
again.

With the fix a workload whose preemptions failed is tried again at once (pull request 7665).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    kueue_alone,
    queues,
    release_all,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_NOTHING_PARKED_COULD_PREEMPT

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 20


async def preempting(user: User) -> None:
    """A workload of high priority comes, and the server restarts while the preemption is asked for."""
    await queues(user, team=1)
    await create(user, workload("low", "team", 1))
    await user.sleep(2)
    user.delay("kueue", "apiserver", 1)
    await create(user, workload("high", "team", 1, 10))
    await user.sleep(1.5)
    user.crash("apiserver")
    user.restart("apiserver")
    user.delay("kueue", "apiserver", 0)
    await release_all(user)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq7665",
    workload=preempting,
    build=kueue_alone,
    invariants=(AT_REST_NOTHING_PARKED_COULD_PREEMPT,),
)
RACE = Race(
    module=__name__,
    releases="up to 0.14; fixed in 0.15",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no workload is parked that could preempt others, once quiet",
    scenario=SCENARIO,
    schedules=800,
)
