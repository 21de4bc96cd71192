"""autoscaler 5235: a node is deleted with a pod that was bound to it meanwhile.

The autoscaler finds a node empty, taints it, and asks the cloud to delete its machine. A scheduler that has not heard
of the taint yet binds a pod to the node in between: the pod is lost with its machine, and nothing evicted it (issues
3886 and 5790).

With the fix the autoscaler waits for five seconds after the taint (`node-delete-delay-after-taint`), looks at the pods
of the node again, and gives it back if there are some (pull request 5235).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.autoscaler import PODS_LEAVE_BEFORE_THEIR_NODE

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import User
    from controlplane.scenarios.engine.setting import Setting

MOMENTS_S = (20, 30, 40)
REST_S = 30


def build(_setting: Setting) -> ClusterConfig:
    """A group of two nodes without kubelets, one of which is not needed."""
    from controlplane.autoscaler.cloud.file import node_groups_of
    from controlplane.autoscaler.loops.adding import cloud_of
    from controlplane.autoscaler.process.controller import autoscaler_of
    from controlplane.cluster import ClusterConfig

    group = {
        "name": "pool",
        "maxSize": 2,
        "size": 2,
        "template": {
            "metadata": {"annotations": {"emulate.controlplane/kubelet": "false"}},
            "status": {"capacity": {"cpu": "2", "memory": "8Gi"}},
        },
    }
    flags = {"scale-down-unneeded-time": "10s"}
    content = node_groups_of({"flags": flags, "nodeGroups": [group]}, "race ca5235")
    return ClusterConfig(
        nodes=(),
        controllers=False,
        kubelets=False,
        own_controllers=(autoscaler_of(content),),
        additions=(cloud_of(content.groups),),
    )


async def bound_late(user: User) -> None:
    """One node is in use; a pod comes that only the other one can take."""
    await user.create(pod("stays", "1500m"))
    await user.sleep(MOMENTS_S[user.choose(len(MOMENTS_S), "when")])
    await user.create(pod("late", "1500m"))
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race ca5235",
    workload=bound_late,
    build=build,
    invariants=(PODS_LEAVE_BEFORE_THEIR_NODE,),
)
RACE = Race(
    module=__name__,
    releases="up to 1.25; fixed in 1.26",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no node is deleted with pods on it",
    scenario=SCENARIO,
    schedules=200,
)
