"""Kubernetes pull request 106102: a deletion missed by the watch cleans only the cache or only the queue.

The watch is interrupted while a pod is being bound, and the pod is deleted before it is back. The informer lists,
misses the pod, and tells of its deletion with the last object it had, which is not bound. The handler went by that
object and cleaned the queue only; the assumption stays in the cache for ever, and takes room for a pod that is
gone.

The fix: what comes as a tombstone is taken from both. (Since 134157, which looks at assumed pods in any case, it
does not show; so that one is off here.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import pods
from controlplane.scenarios.invariants.scheduling_state import CACHE_HOLDS_WHAT_IS_BOUND

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def missed_deletion(user: User) -> None:
    """About the time when a pod is bound the scheduler is cut off, and the pod is deleted; history is forgotten."""
    await user.sleep(1)
    await user.create(pod("web", "500m"))
    while not pods(user.run)["web"].spec.node_name:
        await user.point()
    for _ in range(user.choose(6, "when")):
        await user.point()
    user.cut("apiserver", "scheduler")
    await user.delete("Pod", "web")
    user.crash("apiserver")  # the new one knows no history: who asks for it has to list again
    user.restart("apiserver")
    user.heal("apiserver", "scheduler")
    await user.sleep(20)


SCENARIO = Scenario(
    "race 106102",
    workload=missed_deletion,
    build=scheduler_alone(),
    invariants=(CACHE_HOLDS_WHAT_IS_BOUND,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.20; fix: 1.20",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="once nothing moves any more, the scheduler's cache has the bound pods and no others",
    scenario=SCENARIO,
    schedules=600,
    broken={"without_fix": ("106102", "134157")},
    fixed={"without_fix": ("134157",)},
)
