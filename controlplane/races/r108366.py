"""Kubernetes issue 106884: the end of a pod is reported before the kubelet frees its room.

The last container of a pod ends while its worker is at work. The sync finds that the pod has ended and reports it; the
status goes out at once, and the scheduler gives the room to the next pod. But the worker has only begun to clean
up: the pod is being terminated, and what is being terminated counts. The next pod arrives and is refused with
OutOfcpu. With many short pods on a node that happens in bursts.

Since pull request 108366 a terminal phase is withheld until the worker knows that nothing of the pod runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.nodes import placed_pods_are_admitted

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def run_to_their_end(user: User) -> None:
    """Pods that end by themselves come one after the other; three fill the node."""
    for number in range(9):
        tree = pod(f"batch-{number}", "1300m", restartPolicy="Never")
        seconds = str(1 + user.choose(4, "how long it runs"))
        tree["metadata"]["annotations"] = {"emulate.controlplane/run-seconds": seconds}
        await user.create(tree)
        await user.sleep(user.choose(3, "pause"))
    await user.sleep(60)


SCENARIO = Scenario(
    "race 108366",
    workload=run_to_their_end,
    invariants=(placed_pods_are_admitted(NODE),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="bug: 1.22 and 1.23; fix: 1.24, backported to both",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a pod that the scheduler places where there is room is admitted",
    scenario=SCENARIO,
    schedules=100,
)
