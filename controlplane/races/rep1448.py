"""external-provisioner 1449: a snapshot goes while a volume is restored from it, and the volume stays.

A claim is restored from a snapshot, and the driver takes longer than the provisioner waits. The claim is
deleted, and with it the reason why the snapshot controller keeps the snapshot: that is deleted too. The
provisioner, which has to ask again to learn of the volume, finds no snapshot and refuses; the driver
finishes, and no object refers to the volume.

Now the provisioner puts a finalizer of its own on the snapshot before it asks the driver. That keeps the
snapshot, not its content: where the content is deleted with it (policy Delete) the volume is still left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, DRIVER

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def restored_and_deleted(user: User) -> None:
    """The claim that is restored from the snapshot `daily` is deleted amid that, and then the snapshot."""
    await user.wait_until(lambda run: storage.ready(run) == 1, patience_s=60)
    await storage.restore(user, "restored", "daily")
    await user.sleep((2, 1, 5)[user.choose(3, "pause")])
    await storage.remove(user, "PersistentVolumeClaim", "restored")
    await user.sleep(1)
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(1000)
    storage.end(user)


async def deleted(user: User) -> None:
    """A claim is deleted while it is restored, and then the snapshot."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    await storage.storage_class(user)
    late = Fault("CreateVolume", count=4, code="DeadlineExceeded", message="late", when="after")
    await user.ctx.ask(DRIVER, late)
    await storage.take(user, "daily", policy="retain")
    await restored_and_deleted(user)


SCENARIO = Scenario(
    "race ep1448",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 6.1 of the provisioner; fix: 6.2 (Kubernetes 1.36)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="every volume of the storage is named by an object",
    scenario=SCENARIO,
    schedules=10,
)
