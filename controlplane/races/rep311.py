"""external-provisioner 131: a volume whose claim went during its creation stays in the storage system.

A driver takes longer to make a volume than the provisioner waits. The claim is deleted, the provisioner
has nothing more to do for a claim that is gone, and the driver finishes: no object refers to the volume.

Now the provisioner remembers claims whose volume may be in the making, by uid, and goes on asking until
it has an answer; then the volume is deleted.
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
    """A claim is deleted while its volume is being made."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.storage_class(user)
    await user.ctx.ask(DRIVER, Fault("CreateVolume", count=1, delay_ns=30 * SECOND))
    await storage.restore(user, "data", "")
    await user.sleep((5, 2, 9)[user.choose(3, "pause")])
    await storage.remove(user, "PersistentVolumeClaim", "data")
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race ep311",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.3 of the provisioner; fix: 1.4 (Kubernetes 1.15)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="every volume of the storage is named by an object",
    scenario=SCENARIO,
    schedules=10,
)
