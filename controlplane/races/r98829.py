"""Kubernetes issue 98828, pull request 98829: an update sends a pod to the backoff queue without a backoff.

A rejected pod waits for an event, and its backoff has long been over. An update makes it likely to fit. The
update put it into the backoff queue in any case; it was tried only when the next flush of that queue came by.

The fix asks whether the pod still serves a backoff, and makes it ready at once if not. (Only without queueing
hints, which took the place of this rule.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling_state import NO_BACKOFF_IS_SERVED_TWICE

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def updates(user: User) -> None:
    """A pod that fits nowhere, and is changed now and then."""
    await user.sleep(1)
    await user.create(pod("big", "64"))
    for number in range(6):
        await user.sleep(3 * user.choose(5, "how long"))
        labels = {"touched": str(number)}
        await user.patch("Pod", "big", {"metadata": {"labels": labels}})


SCENARIO = Scenario(
    "race 98829",
    workload=updates,
    build=scheduler_alone(queueing_hints=False),
    invariants=(NO_BACKOFF_IS_SERVED_TWICE,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.21; fix: 1.21",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a pod enters the backoff queue only while its backoff lasts",
    scenario=SCENARIO,
)
