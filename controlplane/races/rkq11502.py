"""kueue 11502: a workload waits for ever for a preemption that an admission undid.

The scheduler counts a workload as soon as it has chosen it; the admission is written in a task of its own. The next
cycle may preempt it before that. The eviction is written first, and the admission, which knows nothing of it,
overwrites it: the workload runs. The preemption stays expected, so that no cycle asks for it again, and the workload
that waits for the quota stands at the head of its queue for ever (issue 11480).

With the fix an admission that was written ends the expectation (pull request 11502).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    kueue_alone,
    queues,
    release_all,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import AT_REST_PREEMPTIONS_HAVE_COME

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10


async def both(user: User) -> None:
    """A workload of low priority comes, and one of high priority at once after it."""
    await queues(user, team=1)
    await create(user, workload("low", "team", 1))
    await create(user, workload("high", "team", 1, 10))
    await release_all(user)
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race kq11502", workload=both, build=kueue_alone, invariants=(AT_REST_PREEMPTIONS_HAVE_COME,)
)
RACE = Race(
    module=__name__,
    releases="0.16 and 0.17; fixed in 0.18",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a workload that preempts others does not wait for what does not come",
    scenario=SCENARIO,
    schedules=800,
)
