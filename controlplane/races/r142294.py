"""Kubernetes issue 141694, pull request 142294: a preemption that causes no delete event leaves its preemptor waiting.

A preemptor is tried again while its victims are gone from the API server but not yet from the scheduler's
snapshot. Preemption picks them again; their deletion is answered with NotFound, which counts as done. The
preemptor is parked and waits for a delete event that has come and gone: it stays pending until the flush, which
in 1.36 skips it.

The proposed fix activates the preemptor whenever the eviction ends, not only when it fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import pods

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User


async def important_pod(user: User) -> None:
    """Three pods fill a node; a more important one needs all of it."""
    await user.sleep(1)
    for number in range(3):
        await user.create(pod(f"low-{number}", "600m", priority=0))
    await user.sleep(1)
    await user.create(pod("high", "2", priority=10))
    await user.sleep(20)


def it_is_placed(run: Run) -> str | None:
    """There is room for it in the end."""
    return None if pods(run)["high"].spec.node_name else "high waits although there is room"


SCENARIO = Scenario(
    "race 142294",
    workload=important_pod,
    build=scheduler_alone(),
    invariants=(Invariant("the important pod is placed", it_is_placed),),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="open upstream; bug from 1.32 on",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="6 of 6 runs, still after 421 s",
    invariant=("a pod for which there is room is placed in the end"),
    scenario=SCENARIO,
)
