"""Kubernetes issue 140082, pull request 139162: a gated pod is never flushed from the unschedulable pool.

A preemptor's victim waits in Permit, so it is stopped in memory: no API call, no deletion timestamp, no delete
event. The event that its room is free may come while the preemptor is still gated, as one that preempts; then
nothing else will ever wake it. The flush of the unschedulable pool, which every five minutes lets everything
through, skips gated pods whose gating plugin did not ask for that very event, and a flush is no event that a
plugin could ask for.

The fix lets the flush through. (Pull request 142294 would not let the event be lost in the first place.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_with
from controlplane.scenarios.invariants.scheduling import pods

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User


def plugin() -> type:
    """A Permit plugin that holds pods."""
    from controlplane.scenarios.authoring.scheduler_plugins import Hold

    return Hold


async def held_victim(user: User) -> None:
    """A pod is held in Permit; another preempts it there, and has thirteen minutes."""
    await user.sleep(1)
    victim = pod("web", "2", priority=0)
    victim["metadata"]["labels"] = {"hold": "yes"}
    await user.create(victim)
    await user.sleep(1)
    await user.create(pod("high", "2", priority=10))
    await user.sleep(780)
    await user.attempt(user.delete("Pod", "web"))


def it_is_placed(run: Run) -> str | None:
    """The preemptor gets its node, sooner or later."""
    return None if pods(run)["high"].spec.node_name else "high waits for ever"


SCENARIO = Scenario(
    "race 139162",
    workload=held_victim,
    build=scheduler_with(plugin),
    invariants=(Invariant("the preemptor is placed", it_is_placed),),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: before 1.37; fix: 1.37",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("a preemptor whose preemption finished is placed in the end"),
    scenario=SCENARIO,
)
