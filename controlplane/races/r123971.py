"""Kubernetes issue 123971: pods that run are refused after a restart: memory of init containers is asked for again.

A pod's init container and the container after it are given the same memory. When the second one starts, the entry
of the first one is dropped. After a restart all pods are admitted once more, container by container: the one that
runs has its entry, the init container has none and is given memory anew. Where there is not enough left, a pod that
has been running all along is refused, and fails for good.

Open. The repair here: an init container asks for nothing while a container after it has memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.numa import build, in_memory
from controlplane.scenarios.authoring.workloads import restart_between_writes
from controlplane.scenarios.invariants.nodes import who_ran_is_admitted_again

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"

SIZES = ("500Mi", "1Gi", "2Gi")


async def some_prepare(user: User) -> None:
    """Pods that want memory come and go, some with a container that prepares things; the kubelet begins again."""
    for number in range(6):
        name = f"mem-{number % 3}"
        if await user.exists("Pod", name):
            await user.attempt(user.delete("Pod", name, grace_period_seconds=1))
            await user.sleep(5)
        size = SIZES[user.choose(len(SIZES), "memory")]
        first = {"init": SIZES[user.choose(3, "how much")]} if user.choose(2, "prepares") else {}
        await user.attempt(user.create(in_memory(name, size, **first)))
        await user.sleep(10)
        if user.choose(4, "restart") == 3:
            await restart_between_writes(user, NODE)
            await user.sleep(10)
    await user.sleep(30)


SCENARIO = Scenario(
    "race 123971",
    workload=some_prepare,
    build=build("single-numa-node"),
    invariants=(who_ran_is_admitted_again(NODE),),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    releases="open; with the static policy of the memory manager",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a pod whose containers have run is admitted again by a kubelet that begins anew",
    scenario=SCENARIO,
    schedules=200,
)
