"""Kubernetes issue 113130: a restart compares memory per node, which depends on the order of allocation.

A pod that has memory of two NUMA nodes takes all that is left of the first one and the rest from the second. What
pods give back goes to the first one first as well. So how much of each node is free depends on the order
in which pods came and went, which the file of allocations does not record. The start of a kubelet computed the state
anew, compared it node by node, and refused what it had written itself.

Fixed in 1.32: the sums of a group of nodes are compared.
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

SIZES = ("500Mi", "1Gi", "3500Mi", "4Gi")


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
    "race 127074",
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
