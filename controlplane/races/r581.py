"""external-snapshotter 581: a cancelled operation holds the mutex of the metrics for ever.

A snapshot is deleted before it was ready. When it is gone its deletion has succeeded, and its creation
counts as cancelled; to count that, the function that holds the mutex of the metrics takes it a second
time. Every worker that has something to count from now on waits for it: no snapshot is made any more.

Now the helper that counts takes no mutex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, DRIVER, no_task_is_blocked

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A snapshot is deleted before it is ready, and another is asked for."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    fault = Fault("CreateSnapshot", count=1, code="Internal", message="busy")
    await user.ctx.ask(DRIVER, fault)
    await storage.take(user, "first")
    await user.sleep((0.5, 2, 4)[user.choose(3, "pause")])
    await storage.remove(user, "VolumeSnapshot", "first")
    await user.sleep(5)
    await storage.take(user, "second")
    await user.sleep(60)
    storage.end(user)


SCENARIO = Scenario(
    "race 581",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=(no_task_is_blocked(), *ALWAYS),
)
RACE = Race(
    module=__name__,
    releases="bug: until 4.2 of the snapshotter; fix: 5.0 (Kubernetes 1.23)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="once everything has come to rest no worker is blocked",
    scenario=SCENARIO,
    schedules=10,
)
