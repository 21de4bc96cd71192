"""Kubernetes issue 134249, pull request 134730: a preemption restarts while the last victim is being evicted.

Preemption evicts its victims in the background. So that the last victim's deletion wakes the preemptor, 1.33 took
the preemptor out of the set of preempting pods before that last delete call. In between, an unrelated event
lets the preemptor into a new cycle; the last victim shows no deletion timestamp yet, so a second preemption
begins, and perhaps a third.

The fix keeps the preemptor in the set and notes its last victim: it may go on once that one is gone or
terminating.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User


async def woken_preemptor(user: User) -> None:
    """A pod preempts another that a finalizer keeps; meanwhile nodes and other pods change."""
    await user.sleep(1)
    low = pod("low", "2", priority=0)
    low["metadata"]["finalizers"] = ["example.com/wait"]
    await user.create(low)
    await user.sleep(1)
    await user.create(pod("high", "2", priority=10))
    for number in range(6):
        labels = {"touched": str(number)}
        await user.attempt(user.patch("Node", "node-1", {"metadata": {"labels": labels}}))
    for name in ("one", "two"):
        await user.create(pod(name, "0", nodeName="node-1"))
        await user.delete("Pod", name)
    await user.sleep(1)
    await user.patch("Pod", "low", {"metadata": {"finalizers": None}})


def one_at_a_time(run: Run) -> str | None:
    """A preemptor preempts once before its victim terminates."""
    started = 0
    for event in run.world.log:
        if event.event == "scheduler.preemption":
            started += 1
        elif event.event == "apiserver.write" and (event.data or {}).get("verb") == "delete pods":
            if event.obj == "Pod/default/low":
                break
    return f"{started} preemptions before the victim terminates" if started > 1 else None


SCENARIO = Scenario(
    "race 134730",
    workload=woken_preemptor,
    build=scheduler_alone(),
    invariants=(Invariant("one preemption at a time", one_at_a_time),),
    reads_log=True,
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: from 1.33; fix: 1.35",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=("at most one preemption of a preemptor is under way"),
    scenario=SCENARIO,
    schedules=200,
)
