"""scheduler-plugins 930: a gang is admitted with a member that was rejected or is gone.

Coscheduling counts the pods of a group that have a node, by their names, and lets all go when there are enough.
One pod waits in Permit. Its sibling fits nowhere, so PostFilter rejects the one that waits. Its name is taken out of the
count by Unreserve, in its binding task, a moment later. In between the scheduling task gives the third pod a node: the
count says that the group is complete, and that pod is bound alone. When another pod takes the room of the rejected
one, that stays so.

The name stays for ever when the PodGroup is deleted before Unreserve, which then does nothing.

The proposed fix: only pods count that are bound, wait undecided, or were let go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone, with_community_plugin
from controlplane.scenarios.invariants.scheduler_plugins import A_GANG_RUNS_WHOLLY_OR_NOT_AT_ALL

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import User
    from controlplane.scenarios.engine.setting import Setting

LABEL = "scheduling.x-k8s.io/pod-group"
BACKOFF_S = 15
"""After that time no pod is in backoff."""


def build(setting: Setting) -> ClusterConfig:
    """A scheduler with Coscheduling."""
    return scheduler_alone(**with_community_plugin("Coscheduling", "queueSort"))(setting)


def member(number: int, cpu: str) -> dict[str, Any]:
    """A pod of the gang."""
    tree = pod(f"a-{number}", cpu)
    tree["metadata"]["labels"] = {LABEL: "a"}
    return tree


async def three_pods(user: User) -> None:
    """Two of three pods are enough, one fits nowhere, and a fourth one of low priority wants the room."""
    from controlplane.scheduler.community.coscheduling import POD_GROUP

    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    await user.sleep(1)
    await user.client.create(POD_GROUP.resource, group)
    await user.patch("Node", "node-1", {"spec": {"unschedulable": True}})
    await user.create(pod("low", "1", priority=-10))
    for number, cpu in enumerate(("1", "64", "1")):
        await user.create(member(number, cpu))
    await user.sleep(BACKOFF_S)
    await user.patch("Node", "node-1", {"spec": {"unschedulable": None}})
    await user.sleep(2 * BACKOFF_S)


SCENARIO = Scenario(
    "race sp930",
    workload=three_pods,
    build=build,
    invariants=(A_GANG_RUNS_WHOLLY_OR_NOT_AT_ALL,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="open upstream (issue 930, closed without a fix)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a gang is bound wholly or not at all once quiet",
    scenario=SCENARIO,
    schedules=200,
)
