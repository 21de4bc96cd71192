"""kueue 7845: a parked workload never says why it waits.

When a workload does not fit, the scheduler parks it and writes into its status why. The write carried the version of
the workload that had been popped. Any change in between, of a label, say, made it a conflict, which is only logged.
The change itself does not make the workload worth trying again: its status stays empty until something else happens.

With the fix the write carries no version (pull request 7845).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    cluster_queue,
    create,
    flavor,
    kueue_alone,
    local_queue,
    patch,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_THE_PARKED_SAY_WHY

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10


async def labelled(user: User) -> None:
    """A workload that does not fit comes, and its labels change."""
    await create(
        user, flavor("default"), cluster_queue("team", {"default": 1}), local_queue("team")
    )
    await user.sleep(1)
    await create(user, workload("big", "team", 2))
    for number in range(2):
        await user.attempt(
            patch(user, "Workload", "default", "big", {"metadata": {"labels": {"n": str(number)}}})
        )
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq7845", workload=labelled, build=kueue_alone, invariants=(AT_REST_THE_PARKED_SAY_WHY,)
)
RACE = Race(
    module=__name__,
    releases="up to 0.14; fixed in 0.15",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a parked workload says why it waits, once quiet",
    scenario=SCENARIO,
    schedules=200,
)
