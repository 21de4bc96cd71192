"""Kueue gives the quota of an elastic job that grows away once more.

No issue is known. An elastic job grows: a second workload takes the place of the first, and asks for what the first
one does not have yet (since pull request 9322). Before it is admitted the scheduler looks again whether it fits, since
others of the cycle come before it; for that look, and for all workloads after it, the first workload counts as gone.
So its quota is there twice: two workloads of one cycle are admitted where there is room for one.

The repair that is proposed here leaves the first workload where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.kueue.names import ELASTIC_JOB
from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    cluster_queue,
    create,
    flavor,
    kueue_alone,
    local_queue,
    side_by_side,
    workload,
)
from controlplane.scenarios.invariants.kueue import QUOTA_IS_GIVEN_ONCE

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10


def _slice(name: str, count: int, replaces: str = "") -> dict[str, Any]:
    """Return a workload of an elastic job with `count` pods that request one CPU each."""
    made = workload(name, "elastic", 1)
    made["spec"]["podSets"][0]["count"] = count
    annotations = {ELASTIC_JOB: "true"}
    if replaces:
        annotations["kueue.x-k8s.io/workload-slice-replacement-for"] = f"default/{replaces}"
    made["metadata"]["annotations"] = annotations
    return made


async def grows(user: User) -> None:
    """A job of one pod grows to two, while another workload of the cohort wants two CPUs of three."""
    await create(user, flavor("default"))
    for name, cpus in (("elastic", 2), ("other", 1)):
        await create(user, cluster_queue(name, {"default": cpus}, "team"), local_queue(name))
    await user.sleep(1)
    await create(user, _slice("small", 1))
    await user.sleep(3)

    async def grown(user: User) -> None:
        await create(user, _slice("grown", 2, replaces="small"))

    async def other(user: User) -> None:
        await create(user, workload("other", "other", 2))

    await side_by_side(grown, other)(user)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race here13",
    workload=grows,
    build=kueue_alone,
    invariants=(QUOTA_IS_GIVEN_ONCE,),
)
RACE = Race(
    module=__name__,
    releases="since pull request 9322; open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no queue and no cohort uses more quota than it has",
    scenario=SCENARIO,
    schedules=200,
)
