"""Kueue admits a workload after its end, and takes the end back.

No issue is known. The job of a pending workload goes while the scheduler has the workload in its hands. The
reconciler finishes the workload, and its quota is free. The admission is written after that, without a version, from
what was read before: the field manager of admissions owns the condition Finished too, and a write of its that lacks
the condition takes it away. The workload holds quota that it is not counted with, which another one gets at the same
time.

The repair that is proposed here lets a field manager of its own write the condition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    kueue_alone,
    queues,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import THE_FINISHED_STAY_SO

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10
OWNER = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "name": "gone",
    "uid": "11111111-2222-3333-4444-555555555555",
    "controller": True,
}


async def orphaned(user: User) -> None:
    """A workload comes whose job is gone."""
    await queues(user, team=1)
    orphan = workload("orphan", "team", 1)
    orphan["metadata"] |= {
        "labels": {"kueue.x-k8s.io/job-uid": OWNER["uid"]},
        "ownerReferences": [OWNER],
    }
    await create(user, orphan)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race here9",
    workload=orphaned,
    build=kueue_alone,
    invariants=(THE_FINISHED_STAY_SO,),
)
RACE = Race(
    module=__name__,
    releases="open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a finished workload stays finished",
    scenario=SCENARIO,
    schedules=200,
)
