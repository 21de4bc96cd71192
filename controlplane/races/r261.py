"""external-snapshotter 134: a snapshot whose creation timed out stays in the storage system.

The sidecar calls CreateSnapshot, gives up waiting, and the driver goes on. The snapshot is deleted
meanwhile: its content has no handle, so there seems to be nothing to delete in the storage, and it
goes. Then the driver has finished, and no object refers to what it made.

Now a content is marked before the call, and is kept while the mark is there: until the driver has
answered for certain.
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
    """A snapshot is deleted while the driver, slow this time, makes it."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    slow = Fault("CreateSnapshot", count=1, delay_ns=(30, 65, 90)[user.choose(3, "slow")] * SECOND)
    await user.ctx.ask(DRIVER, slow)
    await storage.take(user, "daily")
    await user.sleep((2, 5, 20)[user.choose(3, "pause")])
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(1000)
    storage.end(user)


SCENARIO = Scenario(
    "race 261",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.x of the snapshotter; fix: 2.0 (Kubernetes 1.17)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="once nothing moves, every snapshot of the storage is named by a content",
    scenario=SCENARIO,
    schedules=15,
)
