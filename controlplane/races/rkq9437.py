"""kueue 9437: the same workload is preempted twice.

The scheduler asks for a preemption and goes on. The workload that waits for the quota is tried again at once. Until
the informer has told of the eviction, its victim looks as before, and the next cycle asks for the same preemption
again, with the same events and counts.

With the fix a preemption that was asked for is expected, and not asked for again until it was seen (pull request
9437).
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
from controlplane.scenarios.invariants.kueue_waiting import PREEMPTED_ONCE

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10


async def preempting(user: User) -> None:
    """A workload of high priority takes the place of another, while others come for another queue."""
    await queues(user, team=1, other=9)
    await create(user, workload("low", "team", 1))
    await user.sleep(2)
    await create(user, workload("high", "team", 1, 10))
    for number in range(3):
        await create(user, workload(f"small-{number}", "other", 1))
    await release_all(user)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq9437", workload=preempting, build=kueue_alone, invariants=(PREEMPTED_ONCE,)
)
RACE = Race(
    module=__name__,
    releases="0.15; fixed in 0.16",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a workload is preempted once for each eviction",
    scenario=SCENARIO,
    schedules=100,
)
