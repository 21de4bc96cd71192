"""Kueue does not offer the quota of an admission that failed to parked workloads.

No issue is known. The scheduler counts a workload as soon as it has chosen it, and the next one is parked for lack of
quota. The admission cannot be written, and the quota is free again; but nothing is flushed, as upstream counts on the
workload to take the quota again, or to go. If it has moved to another queue meanwhile it does neither, and the parked
one waits for ever for what is free.

The repair that is proposed here asks for a flush when an admission fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    change,
    create,
    kueue_alone,
    queues,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_NOTHING_THAT_FITS_IS_PARKED

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 20


async def moved(user: User) -> None:
    """Two workloads come for the quota of one; the first moves away, and the server restarts."""
    await queues(user, here=1, there=1)
    user.delay("kueue", "apiserver", 1)
    await create(user, workload("first", "here", 1), workload("second", "here", 1))
    await user.sleep(0.2)
    await change(user, "first", queueName="there")
    await user.sleep(1.3)
    user.crash("apiserver")
    user.restart("apiserver")
    user.delay("kueue", "apiserver", 0)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race here5",
    workload=moved,
    build=kueue_alone,
    invariants=(AT_REST_NOTHING_THAT_FITS_IS_PARKED,),
)
RACE = Race(
    module=__name__,
    releases="open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no workload that would fit is parked, once quiet",
    scenario=SCENARIO,
    schedules=100,
    broken={"without_fix": ("here5",), "fix": ("here8",)},
    fixed={"fix": ("here5", "here8")},
)
