"""After a restart Kueue admits a workload before its backoff is over.

No issue is known. A workload that was evicted waits until its condition Requeued is True again: the scheduler must not
see it before (pull request 2362). Kueue starts anew, and adds its queues with the workloads that are there; these
go to the heap without a look at the backoff. The first cycle admits such a workload if it comes before the reconcile
that would declare the backoff over, or put its time off: what runs is then declared to wait. With several replicas
there is no need of a race: one that is elected looks at its keys again up to the duration of a lease later, and
schedules at once.

The repair that is proposed here parks such a workload, as any update of it would.
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
from controlplane.scenarios.invariants.kueue_waiting import WHAT_RUNS_IS_NOT_HELD_BACK

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 60
"""Longer than the lease of a leader that is gone."""


async def started_again(user: User) -> None:
    """A workload is evicted from a stopped queue; Kueue's leader is started anew while the queue is."""
    await queues(user, team=1)
    await create(user, workload("first", "team", 1))
    await user.sleep(3)
    await _stop(user, "HoldAndDrain")
    await release_all(user)
    name = leader(user)
    user.crash(name)
    await _stop(user, "None")
    user.restart(name)
    await user.sleep(REST_S)


async def _stop(user: User, policy: str) -> None:
    await patch(user, "ClusterQueue", "", "team", {"spec": {"stopPolicy": policy}})


SCENARIO = Scenario(
    "race here12",
    workload=started_again,
    build=two_kueues,
    invariants=(WHAT_RUNS_IS_NOT_HELD_BACK,),
)
RACE = Race(
    module=__name__,
    releases="open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="an admitted workload is not held back",
    scenario=SCENARIO,
    schedules=100,
)
