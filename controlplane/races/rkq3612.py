"""kueue 3612: what changed before a replica was elected is never reconciled.

Two replicas run, and the leader goes away, as in a rolling restart. A stopped queue, whose workloads were evicted, is
started again. The other replica hears of it and drops the keys of the workloads, since it does not lead yet. When
it is elected nothing tells it of them again: they stay evicted for a stop that is over, and wait for ever.

With the fix a replica that does not lead looks at its keys again after the duration of a lease, for as long as their
objects exist (pull request 3612).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    leader,
    patch,
    queues,
    release_all,
    two_kueues,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import (
    AT_REST_NOTHING_WAITS_FOR_A_STOP_THAT_IS_OVER,
)

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 60
"""Longer than the lease of a leader that is gone, and than the time after which keys are looked at again."""


async def started_again(user: User) -> None:
    """A queue is stopped, its leader goes away, and the queue is started again."""
    await queues(user, team=1)
    await create(user, workload("first", "team", 1))
    await user.sleep(3)
    await _stop(user, "HoldAndDrain")
    await release_all(user)
    name = leader(user)
    user.crash(name)
    await _stop(user, "None")
    await user.sleep(REST_S)
    user.restart(name)


async def _stop(user: User, policy: str) -> None:
    await patch(user, "ClusterQueue", "", "team", {"spec": {"stopPolicy": policy}})


SCENARIO = Scenario(
    "race kq3612",
    workload=started_again,
    build=two_kueues,
    invariants=(AT_REST_NOTHING_WAITS_FOR_A_STOP_THAT_IS_OVER,),
)
RACE = Race(
    module=__name__,
    releases="up to 0.9; fixed in 0.10",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a workload does not wait for a stop that is over, once quiet",
    scenario=SCENARIO,
    schedules=20,
)
