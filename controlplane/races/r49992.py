"""Kubernetes issue 49956, pull request 49992: a watch from before the server's list misses the events between.

A client lists at version 10. Another client creates an object at version 11. An API server starts: its watch cache
lists at 11 and has no events yet. The client watches there from version 10. The server compared the version with
its oldest event, and there was none, so it took the start for one that it could serve; its own watch on the store
began after 11. The creation is never delivered, and no error is reported.

The fix: while there is no event, the oldest start is the version of the cache's own list; below it
the answer is 410, and the client lists anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Fault, Option, Scenario
from controlplane.scenarios.authoring.faults import restarts
from controlplane.scenarios.authoring.small_forms import SMALL, START_S, explored, is_small
from controlplane.scenarios.authoring.workloads import config_map, config_maps_come_and_go
from controlplane.scenarios.invariants.caches import CACHE_IS_RIGHT, FOLLOWER, follow, follow_at

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Setting, User

STREAM = Option(
    "watch-list",
    type=bool,
    default=False,
    help="Clients begin with a stream instead of a list (feature gate WatchListClient).",
)


def build(setting: Setting) -> ClusterConfig:
    """An API server and its clients; in the small form nothing else."""
    from controlplane.client.features import ClientFeatures
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(
        nodes=(),
        schedulers=0 if is_small(setting) else 1,
        kubelets=False,
        controllers=False,
        scheduler_watches=(),
        client=ClientFeatures(watch_list_client=setting[STREAM.key]),
    )


churn = config_maps_come_and_go(("a", "b", "c"), 12)
restarting = restarts("apiserver", 3)


async def followed(user: User) -> None:
    """The follower; in the small form it begins when the exploration does."""
    if not user.options[SMALL.key]:
        await follow(user)
        return
    await user.sleep(START_S)
    follow_at(user, user.cluster.address(FOLLOWER), immediate=True)


async def workload(user: User) -> None:
    """Config maps come and go; in the small form one comes."""
    if not user.options[SMALL.key]:
        await churn(user)
        return
    await user.sleep(START_S)
    await user.attempt(user.create(config_map("a")))


async def faults(user: User) -> None:
    """The API server restarts three times; in the small form once."""
    if not user.options[SMALL.key]:
        await restarting.main(user)
        return
    await user.sleep(START_S)
    user.crash("apiserver")
    user.restart("apiserver")


SCENARIO = Scenario(
    "race 49992",
    workload={FOLLOWER: followed, "user": workload},
    build=build,
    faults=(Fault("chaos", faults),),
    invariants=(CACHE_IS_RIGHT,),
    options=(STREAM, SMALL),
    explored=explored,
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.8; fix: 1.8",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="once nothing moves any more, an informer's store holds what the API server holds",
    scenario=SCENARIO,
)
