"""Kubernetes issue 81324: a restarted kubelet releases the CPUs of all pods before it knows its pods.

A kubelet is restarted. Its CPU manager has in its file which containers have CPUs of their own; their containers
run on. Before the API server has sent the kubelet its pods, or before it has taken in all of them, the manager
looks for CPUs without an owner: all of them seem to have none. The entries go from memory and from the file, and
the CPUs are given to other containers, or to the shared set, while their owners still run on them.

Since pull request 81344 nothing is taken back until all sources of pods have been heard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.faults import restarts
from controlplane.scenarios.authoring.workloads import own_cpus
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.invariants.nodes import running_containers_keep_their_cpus

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def pinned(user: User) -> None:
    """Pods with CPUs of their own come, and some go in good order."""
    for number in range(6):
        name = f"pin-{number}"
        await user.attempt(user.create(own_cpus(name, str(1 + user.choose(2, "CPUs")))))
        await user.sleep(user.choose(4, "pause"))
        gone = user.choose(3, "which goes")
        if gone:
            await user.attempt(user.delete("Pod", f"pin-{number - gone}", grace_period_seconds=1))
    await user.sleep(30)


SCENARIO = Scenario(
    "race 81344",
    workload=pinned,
    build=nodes_with_managers(),
    faults=[restarts(NODE, 2, every_s=1, moments=16)],
    invariants=(running_containers_keep_their_cpus(NODE),),
    defaults={"nodes": 1, "node_cpu": "7"},
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.17; fix: 1.18",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a container that runs on CPUs of its own is remembered to have them",
    scenario=SCENARIO,
    schedules=50,
)
