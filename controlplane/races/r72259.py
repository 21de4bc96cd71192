"""Kubernetes issue 72124, pull request 72259: a nomination is unknown until the API server reports it.

A pod preempts others, and the room it will get is nominated for it. The nomination was only written to the pod's
status: until the watch brought it back, the scheduler did not know of it, and gave the room to a less important
pod.

The fix notes the nomination in memory at once, before it is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone
from controlplane.scenarios.invariants.scheduling import events

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User


async def thief(user: User) -> None:
    """A pod preempts another; a third one, less important, comes just then."""
    await user.sleep(1)
    await user.create(pod("low", "2", priority=0))
    await user.sleep(1)
    await user.create(pod("high", "2", priority=10))
    await user.create(pod("thief", "2", priority=0))
    await user.sleep(20)


def room_is_not_taken(run: Run) -> str | None:
    """The third one is never placed."""
    placed = [event.obj for event in events(run, "scheduler.assumed")]
    return "the thief took the room" if "Pod/default/thief" in placed else None


SCENARIO = Scenario(
    "race 72259",
    workload=thief,
    build=scheduler_alone(),
    invariants=(Invariant("no pod takes the room made for another", room_is_not_taken),),
    reads_log=True,
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.11; fix: 1.11",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("room that was made for a pod is reserved for it from the moment of the decision"),
    scenario=SCENARIO,
)
