"""Kubernetes issue 120622, pull request 127016: a pod popped twice overwrites its in-flight entry.

A pod is in flight, and by some path (as gate 125578 off) it is queued and popped again. The second Pop gave the pod
a new marker in the ledger and forgot the first one, which can never be removed any more: it stays at the head of
the ledger, and every later event is kept behind it.

The fix: Pop discards the second copy of a pod that is in flight.
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


async def touched_while_bound(user: User) -> None:
    """A pod that fits, while a user labels it during its binding."""
    await user.sleep(1)
    await user.create(pod("web"))
    for number in range(3):
        labels = {"touched": str(number)}
        await user.attempt(user.patch("Pod", "web", {"metadata": {"labels": labels}}))


SCENARIO = Scenario(
    "race 127016",
    workload=touched_while_bound,
    build=scheduler_alone(),
    invariants=queue_holds(("I1",)),
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="bug: from 1.28; fix: 1.32",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=(
        "I1: after every step of the scheduler, every pod in flight has exactly one marker in the ledger"
    ),
    scenario=SCENARIO,
    broken={"without_fix": ("127016", "125578")},
    fixed={"without_fix": ("125578",)},
)
