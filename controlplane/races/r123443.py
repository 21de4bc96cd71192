"""Kubernetes issue 113035: memory of a group of NUMA nodes is given to a single one's pods, and no restart succeeds.

A NUMA node of which some pod has memory of its own must not become part of a group of nodes, nor the other way
round. Where a policy lets a pod have memory that does not suit it best, the hint of the topology manager can name
such a group all the same, and the memory manager took it. One node is then on its own and in a group; the next
start computes another state than the file has, and the kubelet ends, again and again.

Fixed in 1.32: such a pod is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.numa import build, in_memory
from controlplane.scenarios.authoring.workloads import restart_between_writes
from controlplane.scenarios.invariants.nodes import kubelets_start

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"

SIZES = ("500Mi", "1Gi", "2Gi", "4Gi")


async def sizes_and_restarts(user: User) -> None:
    """Pods that want memory of some size come and go; now and then the kubelet begins again."""
    for number in range(10):
        name = f"mem-{number % 4}"
        if await user.exists("Pod", name):
            await user.attempt(user.delete("Pod", name, grace_period_seconds=1))
            await user.sleep(5)
        await user.attempt(user.create(in_memory(name, SIZES[user.choose(len(SIZES), "memory")])))
        await user.sleep(1 + user.choose(8, "pause"))
        if user.choose(4, "restart") == 3:
            await restart_between_writes(user, NODE)
            await user.sleep(10)
    await user.sleep(30)


SCENARIO = Scenario(
    "race 123443",
    workload=sizes_and_restarts,
    build=build("best-effort"),
    invariants=(kubelets_start(NODE),),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    releases="before 1.32; with the static policy of the memory manager",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="every file that a kubelet leaves on its disk is one that it can start from",
    scenario=SCENARIO,
    schedules=400,
)
