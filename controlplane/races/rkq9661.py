"""kueue 9661: a parked workload whose priority was raised stays parked.

The priority of a workload is raised while the scheduler has it in its hands, found not to fit with the old priority.
The scheduler parks the newest version, with the new priority. The event of the change comes after: it finds the
parked version equal to the new one, and leaves the workload parked, although it could preempt others now.

With the fix the generation that was popped is compared too (pull request 9661). The world is that of its time,
without hashes of shapes: race here7 tells what came of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    change,
    create,
    kueue_with,
    queues,
    release_all,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_NOTHING_PARKED_COULD_PREEMPT

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10


async def raised(user: User) -> None:
    """A workload comes, and its priority is raised at once."""
    await queues(user, team=1)
    await create(user, workload("low", "team", 1))
    await user.sleep(2)
    await create(user, workload("late", "team", 1))
    await change(user, "late", priority=10)
    await release_all(user)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq9661",
    workload=raised,
    build=kueue_with(SchedulingEquivalenceHashing=False),
    invariants=(AT_REST_NOTHING_PARKED_COULD_PREEMPT,),
)
RACE = Race(
    module=__name__,
    releases="up to 0.15; fixed in 0.16",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no workload is parked that could preempt others, once quiet",
    scenario=SCENARIO,
    schedules=400,
)
