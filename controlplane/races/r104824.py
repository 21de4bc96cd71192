"""Kubernetes issue 104824: CPUs of a pod deleted by force are given away while its containers stop.

A pod is deleted with a grace period of zero: its object goes at once, and the kubelet forgets it, although its
containers have yet to stop. Forgotten, the pod is not active. When the next pod is admitted, the CPU manager
takes back what belongs to no active pod and gives it away: two containers run on CPUs that are allocated to each
for its own. Host ports, devices and memory fare alike.

Open, without a fix that upstream agreed on. The repair here lets a pod count until its worker knows that its
containers have stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import own_cpus
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.invariants.nodes import running_containers_keep_their_cpus

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def replaced(user: User) -> None:
    """Pods with CPUs of their own come and go, some by force, and come again under their names."""
    for _ in range(8):
        name = f"pin-{user.choose(3, 'which')}"
        if await user.exists("Pod", name):
            grace = user.choose(3, "grace")
            await user.attempt(user.delete("Pod", name, grace_period_seconds=grace))
        cpus = str(1 + user.choose(3, "CPUs"))
        stops_s = (0, 8)[user.choose(2, "how it stops")]
        await user.attempt(user.create(own_cpus(name, cpus, stops_s=stops_s)))
        await user.sleep(user.choose(4, "pause"))
    await user.sleep(30)


SCENARIO = Scenario(
    "race 104824",
    workload=replaced,
    build=nodes_with_managers(),
    invariants=(running_containers_keep_their_cpus(NODE),),
    defaults={"nodes": 1, "node_cpu": "7"},
)
RACE = Race(
    module=__name__,
    releases="open; with the static policy of the CPU manager (1.8 on)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="CPUs of its own that a container still runs on are remembered to be its own",
    scenario=SCENARIO,
    schedules=100,
)
