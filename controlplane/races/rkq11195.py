"""kueue 11195: an elastic job that grows runs without quota when its admission is lost.

An elastic job runs, and grows: a second workload is to take the place of the first. The scheduler finished the first
one, and then wrote the admission of the second. Kueue crashes in between: the first has given its quota back, the
second waits, and another workload is before it in the queue. The pods of the job go on running, and count for nothing
(issue 9015).

With the fix the first one is finished once the second one is admitted (pull request 11195).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import create, queues, workload
from controlplane.scenarios.churns.kueue_jobs_churn import build, job
from controlplane.scenarios.invariants.kueue_jobs import AT_REST_ELASTIC_PODS_HAVE_QUOTA

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 20


async def grows(user: User) -> None:
    """An elastic job grows, another workload waits for more than is free, and Kueue crashes."""
    await create(
        user,
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "low"},
            "value": 0,
        },
    )
    await queues(user, team=3)
    await user.create(job("grows", "team", 2, "low", elastic=True))
    await user.sleep(5)
    await create(user, workload("other", "team", 2))
    await user.sleep(5)
    await user.attempt(user.patch("Job", "grows", {"spec": {"parallelism": 3}}))
    for _ in range(user.choose(40, "when Kueue crashes")):
        await user.ctx.point("user.waits")
    user.crash("kueue")
    user.restart("kueue")
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq11195",
    workload=grows,
    build=build,
    invariants=(AT_REST_ELASTIC_PODS_HAVE_QUOTA,),
)
RACE = Race(
    module=__name__,
    releases="up to 0.17; fixed in 0.18",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no more pods of an elastic job are let go than it has quota for, once quiet",
    scenario=SCENARIO,
    schedules=400,
)
