"""Kubernetes issue 120622, pull request 126962: a pod that is skipped after Pop leaks its in-flight entry.

The scheduler pops a pod and finds that it is being deleted, or is assumed already. It skips the pod, and that
path did not call Done: the pod stays in flight for ever, and every event that comes after it is kept for it. On
busy clusters the scheduler ran out of memory, and the queueing hints were switched off by default for four
releases.

The fix calls Done on that path too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling_queue import queue_holds

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def terminating_pod(user: User) -> None:
    """A pod that fits nowhere is deleted, but a finalizer keeps it; then a node changes."""
    await user.sleep(1)
    tree = pod("big", "64")
    tree["metadata"]["finalizers"] = ["example.com/wait"]
    await user.create(tree)
    await user.delete("Pod", "big")
    await user.attempt(user.patch("Node", "node-1", {"metadata": {"labels": {"touched": "yes"}}}))
    await user.sleep(10)
    await user.patch("Pod", "big", {"metadata": {"finalizers": None}})


SCENARIO = Scenario(
    "race 126962",
    workload=terminating_pod,
    build=scheduler_alone(),
    invariants=queue_holds(("I3",)),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: from 1.28; fix: 1.32 (with queueing hints)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("I3: once nothing moves any more, no pod in flight has ceased to exist"),
    scenario=SCENARIO,
)
