"""Kubernetes issue 103952: CPUs of a pod that is being admitted are taken back before it is.

A pod of two containers is admitted: the first one gets its CPUs. Before the second one gets its own, what belongs
to no active pod is taken back. In 1.22 a pod is active once its worker knows it, and this one has no worker yet:
the first container's CPUs go back to the others, and the second one is given the very same.

Fixed in 1.22.1: a pod that is being admitted counts. (That the remembered pod went on counting after its deletion
was a bug of its own, 107074, fixed by 127506.)
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


async def of_one_or_two(user: User) -> None:
    """Pods of one or two containers, with CPUs of their own or without, come and go."""
    for number in range(6):
        name = f"pod-{number % 3}"
        if await user.exists("Pod", name):
            await user.attempt(user.delete("Pod", name, grace_period_seconds=1))
        tree = own_cpus(name, ("500m", "1", "2")[user.choose(3, "CPUs")])
        if user.choose(2, "two containers"):
            (one,) = tree["spec"]["containers"]
            tree["spec"]["containers"].append({**one, "name": "other"})
        await user.attempt(user.create(tree))
        await user.sleep(user.choose(8, "pause"))
    await user.sleep(30)


SCENARIO = Scenario(
    "race 103979",
    workload=of_one_or_two,
    build=nodes_with_managers(),
    invariants=(pinned_containers_have_their_cpus(NODE),),
    defaults={"nodes": 1, "node_cpu": "7"},
)
RACE = Race(
    module=__name__,
    releases="1.22.0; with the static policy of the CPU manager",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a container that runs and is entitled to CPUs of its own has them",
    scenario=SCENARIO,
    schedules=100,
)
