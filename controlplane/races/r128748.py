"""Kubernetes issue 128744, pull request 128748: errors make the backoff of a rejection longer.

Every attempt doubled a pod's backoff, whatever ended it. A pod that failed a few times through no fault of its
own, since a webhook or the network was down, and is rejected afterwards waits as long as if it had been rejected
each time.

The fix counts rejections and errors in a row apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_with
from controlplane.scenarios.invariants.scheduling_state import BACKOFF_FITS_FAILURES

if TYPE_CHECKING:
    from controlplane.scenarios import User


def plugin() -> type:
    """A PreBind plugin that refuses every pod three times."""
    from controlplane.scenarios.authoring.scheduler_plugins import RefuseThrice

    return RefuseThrice


async def room_comes_and_goes(user: User) -> None:
    """Two pods whose first attempts fail; meanwhile another one takes the room, and leaves it."""
    await user.sleep(1)
    for number in range(2):
        await user.create(pod(f"web-{number}", "500m"))
    for _ in range(6):
        await user.sleep(user.choose(4, "how long"))
        await user.create(pod("filler", "2", nodeName="node-1"))
        await user.sleep(1 + user.choose(3, "how long"))
        await user.delete("Pod", "filler")
    await user.sleep(20)


SCENARIO = Scenario(
    "race 128748",
    workload=room_comes_and_goes,
    build=scheduler_with(plugin),
    invariants=(BACKOFF_FITS_FAILURES,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.34; fix: 1.34",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="the backoff of a rejected pod depends on rejections alone",
    scenario=SCENARIO,
)
