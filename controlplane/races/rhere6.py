"""Kueue gives the quota of a deactivated workload away, and counts it again when it is active.

No issue is known. Since pull request 8919 a workload that is not active does not count, although it has not handed
its quota back: it has to be evicted, its pods have to go, and until then it runs. Another workload gets the quota at
once. When the first is active again before it was evicted, it goes on with the quota that it still holds, and both
count.

The repair that is proposed here counts a workload until it holds no quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    change,
    create,
    kueue_alone,
    queues,
    release_all,
    workload,
)
from controlplane.scenarios.invariants.kueue import QUOTA_IS_GIVEN_ONCE

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 20


async def reactivated(user: User) -> None:
    """A workload runs, is deactivated, and is active again; another one waits for its quota."""
    await queues(user, team=1)
    await create(user, workload("one", "team", 1), workload("other", "team", 1))
    await user.sleep(3)
    await change(user, "one", active=False)
    await user.sleep(2)
    await change(user, "one", active=True)
    await release_all(user)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race here6", workload=reactivated, build=kueue_alone, invariants=(QUOTA_IS_GIVEN_ONCE,)
)
RACE = Race(
    module=__name__,
    releases="since 0.16, open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no queue uses more quota than it has",
    scenario=SCENARIO,
    schedules=50,
)
