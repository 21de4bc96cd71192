"""A pod that another client marks as ended takes no room on its node while its containers still run.

No issue is known. A client writes the phase Failed into the status of a pod that runs, as the garbage collector of
pods does for those of a node that is out of service. HandlePodReconcile tells the pod's worker nothing of it, so
the containers run until the next periodic sync, up to a minute and a half later. Meanwhile isPodInactive of
pkg/kubelet/kubelet_pods.go takes the pod for inactive, since it is in a terminal phase and no termination has been
requested: its room is given to pods that are admitted and to resizes that had been deferred. When the worker begins
with the end, the pod counts again, and more is allocated than the node has.

The repair that is proposed here lets the pod count until its worker knows that its containers have stopped, and tries
deferred resizes again then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.churns.storage_world import runs
from controlplane.scenarios.invariants.nodes import promises_fit

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def failed_by_another(user: User) -> None:
    """A pod that fills most of a node is marked as failed; another one takes its place by name and node."""
    await user.create(pod("old", "3", nodeName=NODE))
    await user.wait_until(lambda run: runs(run, "old"), patience_s=60)
    await user.patch("Pod", "old", {"status": {"phase": "Failed"}}, subresource="status")
    await user.sleep(5)
    await user.create(pod("new", "3", nodeName=NODE))
    await user.sleep(120)


SCENARIO = Scenario(
    "race here14",
    workload=failed_by_another,
    invariants=(promises_fit(NODE),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="1.33 on: open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no more is promised than is allocatable",
    scenario=SCENARIO,
    schedules=100,
)
