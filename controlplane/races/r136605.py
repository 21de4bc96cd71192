"""Kubernetes issue 84783: a crash between two writes leaves a file that the next start refuses.

The CPU manager takes CPUs out of the shared set and writes its file, then gives them to the container and writes it
again; when it takes them back it does so the other way round. A kubelet that is killed in between leaves a file in
which CPUs are neither shared nor assigned. At its next start it finds that the CPUs of the machine are not those of
the file, and ends, again and again, until the file is removed by hand.

Open. The proposal (pull request 136605) writes both in one go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.faults import restarts_amid
from controlplane.scenarios.authoring.workloads import own_cpus
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.invariants.nodes import kubelets_start

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def pinned(user: User) -> None:
    """Pods with CPUs of their own come and go."""
    for number in range(10):
        name = f"pin-{number % 3}"
        if await user.exists("Pod", name):
            await user.attempt(
                user.delete("Pod", name, grace_period_seconds=user.choose(2, "grace"))
            )
        await user.attempt(user.create(own_cpus(name, str(1 + user.choose(2, "CPUs")))))
        await user.sleep(user.choose(3, "pause"))
    await user.sleep(20)


SCENARIO = Scenario(
    "race 136605",
    workload=pinned,
    build=nodes_with_managers(),
    faults=[restarts_amid(NODE, 4)],
    invariants=(kubelets_start(NODE),),
    defaults={"nodes": 1, "node_cpu": "7"},
)
RACE = Race(
    module=__name__,
    releases="open; with the static policy of the CPU manager",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="every file that a kubelet leaves on its disk is one that it can start from",
    scenario=SCENARIO,
    schedules=100,
)
