"""Kubernetes issue 135296: a pod that the kubelet rejected takes room after all.

The kubelet rejects a pod, and has it fail. Before the API server shows that, something changes about the pod: the
update, which still says Pending, reaches a worker, the first that this pod has. Its first sync finds the failed
status and begins to terminate the pod, and what is being terminated counts. The next pod, for which the
scheduler sees room by now, is refused with OutOfcpu.

Open. The proposal (pull request 136508) recognises the rejection, and tells no worker of such a pod.
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


async def misfits_and_others(user: User) -> None:
    """Pods that were put on a node that is too small are labelled while others come and go."""
    for number in range(5):
        misfit = f"misfit-{number}"
        await user.create(pod(misfit, "64", nodeName=NODE))
        if user.choose(2, "labelled"):
            labels = {"seen": str(number)}
            await user.attempt(user.patch("Pod", misfit, {"metadata": {"labels": labels}}))
        await user.create(pod(f"web-{number}", "2"))
        await user.sleep(3 + user.choose(4, "pause"))
        await user.attempt(user.delete("Pod", f"web-{number}", grace_period_seconds=1))
        await user.sleep(5)
    await user.sleep(60)


SCENARIO = Scenario(
    "race 136508",
    workload=misfits_and_others,
    invariants=(placed_pods_are_admitted(NODE),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="open; 1.22 on",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a pod that the scheduler places where there is room is admitted, whatever was rejected",
    scenario=SCENARIO,
    schedules=200,
)
