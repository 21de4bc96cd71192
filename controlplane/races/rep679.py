"""external-provisioner 546: a volume deleted before its claim stays in the storage system.

A client deletes a volume object, which waits for its claim, and then the claim. With the claim the last
thing goes that kept the object, and it vanishes before the provisioner has deleted what it stands for.

Now the provisioner puts a finalizer of its own on every volume that it makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, VOLUMES

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A volume is deleted, and then its claim."""
    await storage.storage_class(user)
    await storage.restore(user, "data", "")
    await user.wait_until(lambda run: storage.bound(run) == 1, patience_s=60)
    for obj in user.run.objects(VOLUMES):
        await storage.remove(user, "PersistentVolume", obj.name)
    await user.sleep((1, 0, 5)[user.choose(3, "pause")])
    await storage.remove(user, "PersistentVolumeClaim", "data")
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race ep679",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 2.2 of the provisioner; fix: 3.0 (Kubernetes 1.23)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="every volume of the storage is named by an object",
    scenario=SCENARIO,
    schedules=10,
)
