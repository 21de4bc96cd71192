"""Kubernetes issue 105523: pods that had ended before the kubelet's restart take room once more.

A kubelet restarts. The list of its pods has some that ended long ago. Its workers see them for the first time, find
that they have ended, and begin to terminate them; what is being terminated counts. Until that is over, the pods
that have run all along are admitted again beside them, do not fit, and fail with OutOfcpu.

Since pull request 105527 a pod that has ended, and of which nothing runs, begins as terminated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.faults import restarts
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.nodes import placed_pods_are_admitted

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def some_end_and_some_stay(user: User) -> None:
    """Pods come, of which some end by themselves and are left lying about."""
    for number in range(8):
        tree = pod(f"batch-{number}", "900m")
        if user.choose(2, "ends"):
            tree["spec"]["restartPolicy"] = "Never"
            tree["metadata"]["annotations"] = {"emulate.controlplane/run-seconds": "2"}
        await user.create(tree)
        await user.sleep(user.choose(6, "pause"))
    await user.sleep(60)


SCENARIO = Scenario(
    "race 105527",
    workload=some_end_and_some_stay,
    faults=[restarts(NODE, 2, every_s=2, moments=16)],
    invariants=(placed_pods_are_admitted(NODE),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="bug: 1.22; fix: 1.23, backported to 1.22",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a pod that the scheduler places where there is room is admitted, and admitted again",
    scenario=SCENARIO,
    schedules=100,
)
