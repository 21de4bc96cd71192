"""Kubernetes pull request 140000 (KEP-5836): a resize that was granted meanwhile stays in the scheduler's queue.

With preemption for resizes a pod on a node is queued while its resize waits, and taken out when the kubelet
grants it. A pod that is in a scheduling cycle is in no queue: there is nothing to take out. The failure handler
reads the pod while its resize still waits; the kubelet's news arrive and are handled; then the handler puts the
pod back. From then on a pod sits in the queue that wants nothing. When it is tried again it is no longer looked at
as a resize: it has to fit beside itself, and where it does not, others are evicted for nothing.

Derived from the proposal's description of the event handlers; no issue reports it. It is the window of
pull request 141645, on the side of deletions: in the form "deletions-too" of that fix a pod that left while
it was tried is not put back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.scheduling import WHAT_IS_QUEUED_WAITS

if TYPE_CHECKING:
    from controlplane.scenarios import User

SIZES = ("500m", "1", "1500m", "2")
GATE = "InPlacePodVerticalScalingSchedulerPreemption=true"


async def grows_and_shrinks(user: User) -> None:
    """Pods on one node are resized again and again, all at about the same time."""
    names = ("web-1", "web-2", "web-3", "web-4")
    for name in names:
        await user.create(pod(name, "1", nodeName="node-1"))
    await user.sleep(20)
    for _ in range(5):
        for name in names:
            size = SIZES[user.choose(len(SIZES), "what size")]
            await user.attempt(user.resize(name, "main", cpu=size))
        await user.sleep(1 + user.choose(4, "pause"))
    await user.sleep(60)


SCENARIO = Scenario(
    "race 140000",
    workload=grows_and_shrinks,
    invariants=(WHAT_IS_QUEUED_WAITS,),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    title="a resize that was granted meanwhile stays in the scheduler's queue",
    issue="140000",
    releases="with the gate InPlacePodVerticalScalingSchedulerPreemption (alpha in 1.37); derived, not reported",
    component="scheduler",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="once nothing moves, a pod on a node is in the scheduler's queue only while its resize waits",
    scenario=SCENARIO,
    schedules=300,
    broken={"feature_gates": (GATE,)},
    fixed={"feature_gates": (GATE,), "fix": ("141645=deletions-too",)},
)
