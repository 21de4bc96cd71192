"""kueue 2362: a workload is admitted before its backoff is declared over.

A workload that was evicted waits with the condition Requeued=False until its reconciler sets it to True: after a
backoff, or when a stopped queue goes on. The scheduler did not look at the condition. It admitted the workload from a
version that says False, and the admission, which writes all conditions of its manager, took the True back: the
workload runs, and is declared to wait (issue 2291).

With the fix a workload is tried when the condition is no longer False, and its change takes it out of the parked
ones.
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
    release,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import WHAT_RUNS_IS_NOT_HELD_BACK

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 20


async def stopped(user: User) -> None:
    """A queue is stopped, drained, and goes on."""
    await queues(user, team=1)
    await create(user, workload("one", "team", 1))
    await user.sleep(2)
    await patch(user, "ClusterQueue", "", "team", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await user.sleep(2)
    await release(user, "one")
    await user.sleep(2)
    await patch(user, "ClusterQueue", "", "team", {"spec": {"stopPolicy": "None"}})
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq2362",
    workload=stopped,
    build=kueue_alone,
    invariants=(WHAT_RUNS_IS_NOT_HELD_BACK,),
)
RACE = Race(
    module=__name__,
    releases="0.7; fixed in 0.8",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="an admitted workload is not declared to wait for another try",
    scenario=SCENARIO,
    schedules=200,
)
