"""Kubernetes issue 129304, pull request 129334: every list stands in the server's memory as a whole while it is sent.

A list is decoded, converted and encoded as a whole, and stays in memory until its client has taken all of it: several
times the size of the data, for each client at once. When many components start together, as after an
outage, their informers' lists run the API server out of memory; it restarts, they list again, and so on.

The fix encodes lists item by item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import config_map

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User


SIZE = 10_000
OBJECTS = 20
COMPONENTS = 6


def build(_setting: Setting) -> ClusterConfig:
    """An API server that finds room for two lists as a whole, and clients that take half a second for one."""
    from controlplane.apiserver.requests.memory import WHOLE, Memory
    from controlplane.client.features import ClientFeatures
    from controlplane.cluster import ClusterConfig

    data = OBJECTS * SIZE
    return ClusterConfig(
        nodes=(),
        kubelets=False,
        controllers=False,
        client=ClientFeatures(watch_list_client=False),
        apiserver_memory=Memory(5 * WHOLE * data // 2, link_bytes_per_s=2 * data),
    )


async def data_and_components(user: User) -> None:
    """Large config maps, and components that keep caches of them, which begin at about the same time."""
    for number in range(OBJECTS):
        await user.create(config_map(f"c{number}", text="x" * SIZE))
    for _ in range(COMPONENTS):
        user.spawn(component)


async def component(user: User) -> None:
    """An informer of config maps, started at some time."""
    from controlplane.client.loops.clientset import Resource
    from controlplane.client.loops.informer import Informer

    await user.sleep(user.choose(4, "how long"))
    address = user.cluster.address("user")
    Informer[Any](user.ctx, Resource("", "v1", "configmaps"), server=address).start()


def survives(run: Run) -> str | None:
    """Return whether no API server was killed."""
    for event in run.world.log:
        if event.event == "apiserver.oom":
            data = event.data or {}
            return f"the server held {data['held']} bytes of {data['limit']}"
    return None


SCENARIO = Scenario(
    "race 129334",
    workload=data_and_components,
    build=build,
    invariants=(Invariant("no API server runs out of memory", survives, ("user",)),),
    reads_log=True,
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.33; fix: 1.33",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no API server runs out of memory",
    scenario=SCENARIO,
)
