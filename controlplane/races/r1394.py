"""external-snapshotter 1366: a deletion that a restore blocked is not tried again.

A snapshot is deleted while a claim is being restored from it. The deletion waits, and counted as
done: when the claim is bound nothing tells the controller, and the snapshot stays until the next
resync, a quarter of an hour later.

Now it counts as failed, and is tried again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.times import SECOND
from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, DRIVER

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A snapshot is deleted while a claim is being restored from it."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    await storage.storage_class(user)
    await user.ctx.ask(DRIVER, Fault("CreateVolume", count=1, delay_ns=5 * SECOND))
    await storage.take(user, "daily")
    await user.wait_until(lambda run: storage.ready(run) == 1, patience_s=60)
    await user.sleep(2)
    await storage.restore(user, "restored", "daily")
    await user.sleep((2, 1, 4)[user.choose(3, "pause")])
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race 1394",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.5 of the snapshotter; fix: 8.6 (Kubernetes 1.36)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a snapshot that is deleted goes soon after the restore that kept it",
    scenario=SCENARIO,
    schedules=10,
)
