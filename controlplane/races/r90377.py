"""Kubernetes issue 90303: the late end of a container takes the CPUs of the one that replaced it.

A container with CPUs of its own ends, and its pod starts it again. What it has is remembered by pod and name, and
the new instance has it by the time at which the kubelet cleans up after the old one: that takes away what stands
under the name. The new instance runs on, remembered to have nothing, and its CPUs are given to others.

Fixed in 1.18: the end of a container frees nothing. What an inactive pod has is taken back before the next
allocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import own_cpus
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.invariants.nodes import pinned_containers_have_their_cpus

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def some_end(user: User) -> None:
    """Pods with CPUs of their own come and go; some end by themselves and are started again."""
    for number in range(6):
        name = f"pin-{number % 3}"
        if await user.exists("Pod", name):
            await user.attempt(user.delete("Pod", name, grace_period_seconds=1))
        tree = own_cpus(name, str(1 + user.choose(2, "CPUs")))
        if user.choose(3, "ends by itself") == 2:
            tree["metadata"]["annotations"] = {"emulate.controlplane/run-seconds": "4"}
        await user.attempt(user.create(tree))
        await user.sleep(user.choose(8, "pause"))
    await user.sleep(30)


SCENARIO = Scenario(
    "race 90377",
    workload=some_end,
    build=nodes_with_managers(),
    invariants=(pinned_containers_have_their_cpus(NODE),),
    defaults={"nodes": 1, "node_cpu": "7"},
)
RACE = Race(
    module=__name__,
    releases="before 1.18; with the static policy of the CPU manager",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a container that runs and is entitled to CPUs of its own has them",
    scenario=SCENARIO,
    schedules=100,
)
