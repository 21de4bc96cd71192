"""Kueue admits a workload without flavors after its queue lost some.

No issue is known. A workload that another one overtook in the cycle is tried again at once, and goes on with the
flavor after the one where the search stopped. When the queue has lost flavors in between, that place is past the end
of the list: no flavor is looked at, nothing is found against the workload, and it is admitted, with no flavor and no
usage.

The repair that is proposed here begins with the first flavor then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    Tree,
    cluster_queue,
    create,
    flavor,
    kueue_alone,
    local_queue,
    patch,
    workload,
)
from controlplane.scenarios.invariants.kueue_waiting import FLAVORS_ARE_ASSIGNED

if TYPE_CHECKING:
    from controlplane.scenarios import User

REST_S = 10


def queue(name: str, *flavors: str) -> Tree:
    """A queue that has no quota of its own; it borrows."""
    quotas = {each: 1 if each == "second" and name == "lender" else 0 for each in flavors}
    return cluster_queue(name, quotas, "all")


async def shortened(user: User) -> None:
    """Two queues want the one CPU of a flavor; the list of one becomes shorter."""
    three = ("first", "second", "third")
    await create(user, *map(flavor, three))
    for name in ("lender", "one", "other"):
        await create(user, queue(name, *three), local_queue(name))
    await user.sleep(1)
    coming = user.spawn(workloads_come)
    await user.point()
    for name in ("one", "other"):
        await patch(user, "ClusterQueue", "", name, {"spec": queue(name, *three[:2])["spec"]})
    await user.join(coming)
    await user.sleep(REST_S)


async def workloads_come(user: User) -> None:
    """Both workloads come."""
    await create(user, workload("a", "one", 1), workload("b", "other", 1))


SCENARIO = Scenario(
    "race here4", workload=shortened, build=kueue_alone, invariants=(FLAVORS_ARE_ASSIGNED,)
)
RACE = Race(
    module=__name__,
    releases="open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a workload that holds quota has flavors",
    scenario=SCENARIO,
    schedules=2000,
)
