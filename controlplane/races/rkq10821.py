"""kueue 10821: a ClusterQueue is kept by its finalizer after an admission failed.

A workload and its ClusterQueue are deleted while the scheduler admits the workload. The deletion of the workload is
heard of before the scheduler counts it; the write of the admission fails, and the scheduler no longer counts it. In
between the reconciler of the ClusterQueue sees quota in use, and keeps the finalizer. Nothing tells it when the quota
is free: the ClusterQueue stays.

With the fix the scheduler tells the reconciler when an admission has failed (pull request 10821).
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


OTHERS = ("a", "b", "c")


async def deleted(user: User) -> None:
    """Messages of Kueue take three seconds; a workload comes and goes while others come, and its queue goes."""
    await create(
        user, flavor("default"), cluster_queue("team", {"default": 1}), local_queue("team")
    )
    for name in OTHERS:
        await create(user, cluster_queue(name, {"default": 1}), local_queue(name))
    await user.sleep(1)
    user.delay("kueue", "apiserver", 3)
    await create(user, *(workload(name, name, 1) for name in OTHERS), workload("one", "team", 1))
    await delete(user, "Workload", "one", "default")
    await user.sleep(0.5)
    await delete(user, "ClusterQueue", "team")
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq10821",
    workload=deleted,
    build=kueue_alone,
    invariants=(AT_REST_QUEUES_THAT_ARE_DELETED_GO,),
)
RACE = Race(
    module=__name__,
    releases="up to 0.17; fixed in 0.18",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a deleted ClusterQueue goes when no workload holds its quota",
    scenario=SCENARIO,
    schedules=800,
)
