"""Kubernetes issue 140989: a restart allocates the CPUs of a pod with pod-level resources a second time.

With the gate PodLevelResourceManagers a pod with resources of its own gets its CPUs as a whole. A kubelet that
restarts admits its pods once more. For a container it looks whether that has its CPUs already; for a pod it does
not: a second set is taken, the first one is lost from then on, and where there are not enough CPUs the pod that has
been running all along is refused.

Fixed after 1.36 (pull request 141041; 141077 for memory).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import own_cpus, restart_between_writes
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.invariants.nodes import (
    nothing_is_handed_out_twice,
    who_ran_is_admitted_again,
)

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def as_a_whole(user: User) -> None:
    """Pods that get CPUs as a whole, or by container, come and go; now and then the kubelet begins again."""
    for number in range(6):
        name = f"pod-{number % 3}"
        if await user.exists("Pod", name):
            await user.attempt(user.delete("Pod", name, grace_period_seconds=1))
            await user.sleep(5)
        tree = own_cpus(name, "1")
        if user.choose(2, "as a whole"):
            amounts = {"cpu": str(1 + user.choose(3, "CPUs")), "memory": "128Mi"}
            tree["spec"]["resources"] = {"requests": amounts, "limits": amounts}
        await user.attempt(user.create(tree))
        await user.sleep(10)
        if user.choose(4, "restart") == 3:
            await restart_between_writes(user, NODE)
            await user.sleep(10)
    await user.sleep(30)


SCENARIO = Scenario(
    "race 141041",
    workload=as_a_whole,
    build=nodes_with_managers(
        topologyManagerPolicy="best-effort",
        topologyManagerScope="pod",
        featureGates={"PodLevelResourceManagers": True},
    ),
    invariants=(nothing_is_handed_out_twice(NODE), who_ran_is_admitted_again(NODE)),
    defaults={"nodes": 1, "node_cpu": "7"},
)
RACE = Race(
    module=__name__,
    releases="1.36, with the gate PodLevelResourceManagers",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no CPU is lost, and who ran is admitted again",
    scenario=SCENARIO,
    schedules=100,
)
