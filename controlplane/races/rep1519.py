"""external-provisioner 1507: a restore that failed for good keeps its snapshot for ever.

The provisioner's finalizer on a snapshot is taken off when a volume was restored. A restore that fails
leaves it there; the claim is deleted, the call is not repeated, and the snapshot can never be deleted.

Now every five minutes finalizers are taken off snapshots that no pending claim names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.races.rep1448 import restored_and_deleted
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, DRIVER

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A claim whose restore fails is deleted, and then the snapshot."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    await storage.storage_class(user)
    await user.ctx.ask(DRIVER, Fault("CreateVolume", code="Internal", message="no space"))
    await storage.take(user, "daily")
    await restored_and_deleted(user)


SCENARIO = Scenario(
    "race ep1519",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: 6.2 of the provisioner; fix: 6.3",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a snapshot that is deleted goes soon after the last restore from it ended",
    scenario=SCENARIO,
    schedules=10,
)
