"""kueue 8543: a deleted workload that was assumed keeps its ClusterQueue from going.

The scheduler counts a workload as soon as it has chosen it, before the admission is written. When the workload is
deleted in between, the handler of the deletion saw a version without quota, and let it count. The write of the
admission finds no workload, and the scheduler no longer counts it; but the reconciler of the ClusterQueue, which
waits for the last workload to go before it takes the finalizer away, has looked already. A deleted ClusterQueue
stays.

With the fix every deletion is taken from the cache (pull request 8543). Pull request 10821 lets the reconciler look
again after a failed admission, and hides this bug: it is off here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    cluster_queue,
    create,
    delete,
    flavor,
    kueue_alone,
    local_queue,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_QUEUES_THAT_ARE_DELETED_GO

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 30


async def deleted(user: User) -> None:
    """Messages of Kueue take three seconds; a workload that is being admitted goes, and so does its queue."""
    await create(
        user, flavor("default"), cluster_queue("team", {"default": 1}), local_queue("team")
    )
    await user.sleep(1)
    user.delay("kueue", "apiserver", 3)
    await create(user, workload("one", "team", 1))
    await user.sleep(0.9)
    await delete(user, "ClusterQueue", "team")
    await user.sleep(3)
    await delete(user, "Workload", "one", "default")
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq8543",
    workload=deleted,
    build=kueue_alone,
    invariants=(AT_REST_QUEUES_THAT_ARE_DELETED_GO,),
)
RACE = Race(
    module=__name__,
    releases="up to 0.15; fixed in 0.16",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a deleted ClusterQueue goes when no workload holds its quota",
    scenario=SCENARIO,
    schedules=400,
    broken={"without_fix": ("kq8543", "kq10821")},
    fixed={"fix": ("kq8543",), "without_fix": ("kq10821",)},
)
