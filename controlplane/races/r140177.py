"""Kubernetes issue 139602, pull request 140177: a late status patch marks a bound pod as unschedulable.

An attempt fails in its binding cycle: the pod is put back, and then its status is patched to PodScheduled=False,
by name and without a precondition. Meanwhile the pod is tried again and bound, and the API server sets
PodScheduled=True with the binding. The patch comes last. The pod runs, and its status says for ever that it
could not be scheduled; a client that waits for the condition waits for ever. In the same way the patch, or a
preemption's delete call, can hit a pod that was recreated under the name.

Open upstream: a first fix was reverted, and feature gate SchedulerAsyncAPICalls, which puts calls for one pod
in order, is off. The repair that is proposed here makes the patch hold only for the version it was made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_with
from controlplane.scenarios.invariants.scheduling import BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED

if TYPE_CHECKING:
    from controlplane.scenarios import User


def plugin() -> type:
    """A Permit plugin that holds pods."""
    from controlplane.scenarios.authoring.scheduler_plugins import Hold

    return Hold


async def held_once(user: User) -> None:
    """A pod is held until its time is up, but would be held no longer; just then the network is slow for a second."""
    await user.sleep(1)
    tree = pod("web", "1")
    tree["metadata"]["labels"] = {"hold": "yes"}
    await user.create(tree)
    await user.sleep(1)
    await user.patch("Pod", "web", {"metadata": {"labels": {"hold": None}}})
    await user.patch("Node", "node-1", {"metadata": {"labels": {"touched": "yes"}}})
    await user.sleep(3.5)
    user.cut("apiserver", "scheduler")
    await user.sleep(1)
    user.heal("apiserver", "scheduler")
    await user.sleep(20)


SCENARIO = Scenario(
    "race 140177",
    workload=held_once,
    build=scheduler_with(plugin),
    invariants=(BOUND_PODS_ARE_SAID_TO_BE_SCHEDULED,),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="open upstream",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="4 of 4 runs; and 4 of 4 in which the patch hit the successor of the pod",
    invariant="once nothing moves any more, no bound pod says PodScheduled=False",
    scenario=SCENARIO,
)
