"""Kubernetes issue 105114: CPUs that a sibling container runs on return to the shared pool.

An init container has CPUs of its own, and the container after it runs on the same ones. When the CPUs of the init
container are taken back, they go to the shared set, although the other one still has them. A kubelet that dies
before the rest of the pod is taken back, too, leaves a file in which CPUs are both shared and exclusive, and its
next start refuses that file; one that lives lets other containers run there.

Fixed in 1.23: only those CPUs go back that no other container of the pod has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.faults import restarts_amid
from controlplane.scenarios.authoring.workloads import own_cpus
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.invariants.nodes import kubelets_start, nothing_is_handed_out_twice

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def some_prepare(user: User) -> None:
    """Pods with CPUs of their own come and go; some have a container that prepares things."""
    for number in range(12):
        name = f"pin-{number % 3}"
        if await user.exists("Pod", name):
            grace = user.choose(2, "grace")
            await user.attempt(user.delete("Pod", name, grace_period_seconds=grace))
        tree = own_cpus(name, str(1 + user.choose(2, "CPUs")))
        if user.choose(2, "prepares"):
            (one,) = tree["spec"]["containers"]
            tree["spec"]["initContainers"] = [{**one, "name": "init"}]
        await user.attempt(user.create(tree))
        await user.sleep(user.choose(8, "pause"))
    await user.sleep(30)


SCENARIO = Scenario(
    "race 105114",
    workload=some_prepare,
    build=nodes_with_managers(),
    faults=[restarts_amid(NODE, 8)],
    invariants=(kubelets_start(NODE), nothing_is_handed_out_twice(NODE)),
    defaults={"nodes": 1, "node_cpu": "7"},
)
RACE = Race(
    module=__name__,
    releases="before 1.23; with the static policy of the CPU manager",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no CPU is both shared and exclusive, and every file is one that a kubelet can start from",
    scenario=SCENARIO,
    schedules=300,
    # Each removal in one write (136605): the window between two is another race.
    broken={"without_fix": ("105114",), "fix": ("136605",)},
    fixed={"fix": ("136605",)},
)
