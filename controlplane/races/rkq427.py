"""kueue 427: a workload that is tried while others are flushed stays parked.

What did not fit is parked, and is tried again when quota is released: a flush moves all parked workloads to the heap.
The workload that the scheduler has in its hands at that moment is neither parked nor in the heap. Found not to fit
with the quota as it was before the release, it is parked behind the flush, and nothing tries it again.

The fix counts the pops of a queue, and the pop at which it was flushed last: a workload that was popped before the
flush goes back to the heap (pull request 427). Since flushes are collected for a second (pull request 9232), the
release has to join a flush that was asked for earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    finish,
    kueue_alone,
    queues,
    release_all,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_NOTHING_THAT_FITS_IS_PARKED

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 20


async def released(user: User) -> None:
    """Two workloads end, the second before the flush for the first; a third is tried, in a cycle that also preempts."""
    await queues(user, team=3, side=1)
    await create(user, workload("small", "team", 1), workload("big", "team", 2))
    await create(user, workload("low", "side", 1))
    await user.sleep(3)
    user.delay("kueue", "apiserver", 0.3)
    await finish(user, "small")
    await user.sleep(0.8)
    await create(user, workload("high", "side", 1, 10), workload("all", "team", 3))
    await user.sleep(0.1)
    await finish(user, "big")
    await release_all(user)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq427",
    workload=released,
    build=kueue_alone,
    invariants=(AT_REST_NOTHING_THAT_FITS_IS_PARKED,),
)
RACE = Race(
    module=__name__,
    releases="0.1 to 0.2; fixed in 0.3",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no workload that would fit is parked, once quiet",
    scenario=SCENARIO,
    schedules=600,
)
