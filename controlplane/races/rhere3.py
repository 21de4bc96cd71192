"""CapacityScheduling lets more pods in than a quota allows: those that have a node do not count.

No issue is known. The plugin counts pods with a node in a handler of its own. A scheduler that starts waits until its
own handlers were told of the pods that there are, and no further: with the plugin's handler behind, its quota seems
unused, and the next pod gets a node. A quota that is created after its pods begins with nothing used, too, until the
scheduler starts again.

The repair that is proposed here lets a new quota count the pods that have a node, and the start wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone, with_community_plugin
from controlplane.scenarios.invariants.scheduler_plugins import QUOTAS_ARE_NEVER_OVERDRAWN

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import User
    from controlplane.scenarios.engine.setting import Setting

MOST = 2


def build(setting: Setting) -> ClusterConfig:
    """A scheduler with CapacityScheduling."""
    return scheduler_alone(**with_community_plugin("CapacityScheduling", "postFilter"))(setting)


async def restarted(user: User) -> None:
    """A quota is used up; the scheduler starts again, and one more pod comes."""
    from controlplane.scheduler.community.capacity_scheduling import ELASTIC_QUOTA

    amounts = {"cpu": MOST, "memory": "8Gi"}
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "all", "namespace": "default"},
        "spec": {"min": amounts, "max": amounts},
    }
    await user.sleep(1)
    await user.client.create(ELASTIC_QUOTA.resource, quota)
    for number in range(MOST):
        await user.create(pod(f"pod-{number}", "1"))
    await user.sleep(5)
    user.crash("scheduler")
    await user.create(pod("more", "1"))
    user.restart("scheduler")
    await user.sleep(20)


SCENARIO = Scenario(
    "race here3",
    workload=restarted,
    build=build,
    invariants=(QUOTAS_ARE_NEVER_OVERDRAWN,),
    defaults={"nodes": 2, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no namespace uses more than its ElasticQuota allows",
    scenario=SCENARIO,
    schedules=200,
)
