"""Kueue admits a workload in two queues when it moves while it is admitted.

No issue is known. The scheduler counts a workload as soon as it has chosen it, and writes the admission in a task of
its own. Its user moves the workload to another queue in between: it waits there, and a next cycle finds it not
counted in that queue (pull request 8474 dropped the record of what is assumed in any), so that it is admitted once
more. Where Kueue's webhook runs, the second write is refused, and the scheduler then counts the workload in no queue
at all.

The repair that is proposed here passes over a workload that is counted in any queue.
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
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import ADMITTED_IN_ONE_QUEUE

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 20


async def moved(user: User) -> None:
    """A workload comes, and moves to another queue at once."""
    await queues(user, here=1, there=1)
    await create(user, workload("first", "here", 1))
    await user.attempt(change(user, "first", queueName="there"))
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race here8",
    workload=moved,
    build=kueue_alone,
    invariants=(ADMITTED_IN_ONE_QUEUE,),
)
RACE = Race(
    module=__name__,
    releases="open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a workload is admitted in one queue at a time",
    scenario=SCENARIO,
    schedules=100,
)
