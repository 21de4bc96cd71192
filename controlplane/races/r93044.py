"""Kubernetes issue 104521, pull request 93044: with two informers of pods, a pod that fails early is dropped.

The scheduling queue was fed by one informer of pods, the failure handler read from another. A pod arrives
through the first, is tried and fails before the second has heard of it. The handler finds no such pod, takes it for
deleted, and drops it: it is in no queue, and will never be tried again.

The fix: one informer, shared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.small_forms import SMALL, START_S, explored, is_small
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import NO_POD_IS_TAKEN_FOR_DELETED

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Setting, User


async def early_failures(user: User) -> None:
    """Pods that fit nowhere, created as soon as there is a node; in the small form one, over a slow link."""
    await user.sleep(1)
    if user.options[SMALL.key]:
        user.delay("apiserver", "scheduler", START_S - 1)
        await user.create(pod("big", "64"))
        await user.sleep(5)
        return
    for number in range(4):
        await user.create(pod(f"big-{number}", "64"))


def build(setting: Setting) -> ClusterConfig:
    """API server, scheduler and a node; in the small form each informer is one task."""
    return scheduler_alone(joined_informers=is_small(setting))(setting)


SCENARIO = Scenario(
    "race 93044",
    workload=early_failures,
    build=build,
    invariants=(NO_POD_IS_TAKEN_FOR_DELETED,),
    reads_log=True,
    options=(SMALL,),
    explored=explored,
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: first releases of 1.19; fix: its patch releases",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="no attempt ends with a pod taken for deleted, since none is deleted",
    scenario=SCENARIO,
    schedules=1000,
)
