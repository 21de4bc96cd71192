"""kueue 10518: a replica that does not lead keeps workloads that were deleted.

Two replicas run. A workload is admitted and deleted. Since pull request 8655 (0.17.0) its quota was given back by the
reconcile that found no object any more, and a replica that does not lead drops such keys. When it is elected, it
counts quota for a workload that is gone, and others wait for it; preemption chooses it as a victim that does not
exist (issue 10495).

With the fix, a revert, the event of the deletion gives the quota back, in every replica (pull request 10518).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    delete,
    leader,
    queues,
    two_kueues,
    workload,
)
from controlplane.scenarios.invariants.kueue import AT_REST_KUEUE_KNOWS_EACH_WORKLOAD

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 60
"""Longer than the lease of a leader that is gone, and than the time after which keys are looked at again."""


async def deleted(user: User) -> None:
    """A workload with quota is deleted, the leader crashes, and another workload wants its place."""
    await queues(user, team=1)
    await create(user, workload("first", "team", 1))
    await user.sleep(3)
    await user.attempt(delete(user, "Workload", "first", "default"))
    await user.sleep(3)
    name = leader(user)
    user.crash(name)
    await create(user, workload("second", "team", 1))
    await user.sleep(REST_S)
    user.restart(name)


SCENARIO = Scenario(
    "race kq10518",
    workload=deleted,
    build=two_kueues,
    invariants=(AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,),
)
RACE = Race(
    module=__name__,
    releases="0.17.0; fixed in 0.17.1",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="what Kueue counts holds quota, once quiet",
    scenario=SCENARIO,
    schedules=20,
)
