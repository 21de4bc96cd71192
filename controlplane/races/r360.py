"""external-snapshotter 349: a claim that is being deleted keeps its snapshot from being made.

The snapshot controller puts its finalizer on the claim and does not get any further. The claim is
deleted: it stays for the finalizer. When the snapshot is tried again the claim is being deleted, so
the finalizer, although it is there, may not be added, and that is an error. No content is made, and
the claim never loses the finalizer.

Now a finalizer that is there is enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, CONTROLLER

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A claim is deleted while a snapshot of it is being taken, and the controller dies at some moment."""
    await storage.claims(user, 1)
    await storage.take(user, "daily")
    await storage.die_amid(user, CONTROLLER)
    await storage.remove(user, "PersistentVolumeClaim", "pvc-0")
    await user.sleep(100)
    storage.end(user)


SCENARIO = Scenario(
    "race 360",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 2.1 of the snapshotter; fix: 3.0 (Kubernetes 1.19)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a claim that is deleted goes once the snapshot is taken",
    scenario=SCENARIO,
    schedules=150,
)
