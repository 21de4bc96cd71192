"""scheduler-plugins 930: a gang is admitted with a member that was rejected or is gone.

Coscheduling counts the pods of a group that have a node, by their names, and lets all go when there are enough. The
name of a pod that was rejected is taken out of the count by Unreserve, in its binding task, later on: a sibling that
gets a node in between completes the group with it (issue 930).

And Unreserve does nothing when the plugin's cache no longer has the PodGroup. A gang is deleted, its pods and its
group, while one of the pods waits in Permit. The cache of groups hears of it first, then the pod is rejected, and its
name stays in the count for ever. A gang of the same name comes next: the first of its pods that gets a node completes
the group together with that name, and is bound alone.

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

REST_S = 30


def build(setting: Setting) -> ClusterConfig:
    """A scheduler that goes on with a group of which one of two pods has no node yet."""
    plugin = with_community_plugin("Coscheduling", "queueSort", podGroupRejectPercentage=50)
    return scheduler_alone(**plugin)(setting)


def member(number: int, cpu: str) -> dict[str, Any]:
    """A pod of the gang."""
    from controlplane.scheduler.community.coscheduling import LABEL

    tree = pod(f"a-{number}", cpu)
    tree["metadata"]["labels"] = {LABEL: "a"}
    return tree


async def deleted_and_created(user: User) -> None:
    """A gang of which one pod waits is deleted; the next one has room for one of its pods."""
    from controlplane.scheduler.community.coscheduling import POD_GROUP

    groups = POD_GROUP.resource
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    await user.sleep(1)
    await user.client.create(groups, group)
    await user.create(member(0, "64"))
    await user.create(member(1, "1"))
    await user.sleep(5)
    for name in ("a-1", "a-0"):
        await user.delete("Pod", name, grace_period_seconds=0)
    await user.client.delete(groups, "default", "a")
    await user.sleep(5)
    await user.client.create(groups, group)
    for number in (0, 1):
        await user.create(member(number, "1"))
    await user.sleep(REST_S)


SCENARIO = Scenario(
    "race sp930",
    workload=deleted_and_created,
    build=build,
    invariants=(A_GANG_RUNS_WHOLLY_OR_NOT_AT_ALL,),
    defaults={"nodes": 1, "node_cpu": "1"},
)
RACE = Race(
    module=__name__,
    releases="open upstream (issue 930, closed without a fix)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a gang is bound wholly or not at all once quiet",
    scenario=SCENARIO,
    schedules=50,
)
