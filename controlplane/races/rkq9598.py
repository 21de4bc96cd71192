"""kueue 9598: a workload is in the heap and parked at the same time.

The scheduler pops a workload, and its owner or a reconciler changes it meanwhile. The event forgot that the scheduler
had the workload in its hands, and put it into the heap. The cycle then found that it does not fit, and parked it as
well: it is counted twice, and tried once more for nothing (issue 9591).

With the fix an event of a workload that the scheduler holds is passed over: the scheduler reads the newest version
when it gives the workload back (pull request 9598).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    kueue_alone,
    patch,
    queues,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import WAITS_IN_ONE_PLACE

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10


async def labelled(user: User) -> None:
    """A workload that does not fit comes, and its labels change."""
    await queues(user, team=1)
    await create(user, workload("big", "team", 2))
    for number in range(2):
        await user.attempt(
            patch(user, "Workload", "default", "big", {"metadata": {"labels": {"n": str(number)}}})
        )
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq9598", workload=labelled, build=kueue_alone, invariants=(WAITS_IN_ONE_PLACE,)
)
RACE = Race(
    module=__name__,
    releases="up to 0.15; fixed in 0.16",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a workload waits in one place",
    scenario=SCENARIO,
    schedules=200,
)
