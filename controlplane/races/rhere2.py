"""The scheduler counts a pod that is gone as a member of its pod group, and lets half a gang run.

No issue is known. A group's state in the scheduler's cache is dropped with its last pod. When a gang is deleted while
the scheduler tries it, the members are already popped: they are assumed after their deletion was heard of, and
`assumePodGroupMember` makes the state anew for the first of them, with the assumed object. When its binding fails,
the pod is forgotten, but `forgetPod` looks at the stored object, which has a node, and takes it for assigned. No
event about this pod will ever come again. A gang of the same name that is made later has one pod more, in the
scheduler's eyes: of two members that are needed one is bound, and runs alone.

The repair that is proposed here makes no state for a pod that the group does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.pod_groups import A_GANG_IS_BOUND_WHOLLY_OR_NOT_AT_ALL

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Setting, User

NAMES = ("a-0", "a-1")
PERMIT_S = 330
"""Longer than a pod waits in Permit for its gang."""
GATES = {"GenericWorkload": True, "GangScheduling": True}


def build(setting: Setting) -> ClusterConfig:
    """The scheduler and nodes, with gangs."""
    return scheduler_alone(scheduler_features=GATES)(setting)


async def gang(user: User) -> None:
    """A gang of two is made and deleted at once; later another one comes under its names, and room for half of it."""
    group: dict[str, Any] = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": len(NAMES)}}},
    }
    await user.create(group)
    member = {"schedulingGroup": {"podGroupName": "a"}}
    for name in NAMES:
        await user.create(pod(name, "1", **member))
    for name in NAMES:
        await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    await user.sleep(PERMIT_S)
    await user.create(pod("other", "1"))
    await user.sleep(5)
    for name in NAMES:
        await user.create(pod(name, "1", **member))
    await user.sleep(30)


SCENARIO = Scenario(
    "race here2",
    workload=gang,
    build=build,
    invariants=(A_GANG_IS_BOUND_WHOLLY_OR_NOT_AT_ALL,),
    defaults={"nodes": 2, "node_cpu": "1"},
)
RACE = Race(
    module=__name__,
    releases="1.36: open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a gang is bound wholly or not at all",
    scenario=SCENARIO,
)
