"""external-snapshotter 134: a claim, and its volume, go while a snapshot of them is made.

A snapshot of a claim is asked for, and the driver takes its time. The claim is deleted meanwhile: nothing
keeps it, its volume is released, and the provisioner has the driver delete it. The driver has nothing left to
cut, and the snapshot never becomes ready.

Now the snapshot controller puts a finalizer on the claim before it asks for the snapshot, and takes it off
when the snapshot is ready.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, DRIVER, snapshots_get_ready

if TYPE_CHECKING:
    from controlplane.scenarios import User

SLOW_NS = 5_000_000_000


async def deleted(user: User) -> None:
    """A claim is deleted while a slow driver is about to take a snapshot of its volume."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 0)
    await storage.storage_class(user)
    await storage.restore(user, "data", "")
    await user.wait_until(lambda run: storage.bound(run) == 1, every_s=0.1)
    await user.ctx.ask(DRIVER, Fault("CreateSnapshot", count=1, delay_ns=SLOW_NS))
    await storage.take(user, "daily", "data")
    await user.sleep((2, 1, 10)[user.choose(3, "pause")])
    await storage.remove(user, "PersistentVolumeClaim", "data")
    await user.sleep(100)
    storage.end(user)


SCENARIO = Scenario(
    "race 283",
    workload=deleted,
    build=storage.world(volumes=0),
    invariants=(snapshots_get_ready(), *ALWAYS),
)
RACE = Race(
    module=__name__,
    releases="bug: until 2.0 of the snapshotter; fix: 2.1 (Kubernetes 1.18)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a snapshot of a claim that was there becomes ready",
    scenario=SCENARIO,
    schedules=10,
)
