"""external-snapshotter 1461: a group that is not ready yet is not asked for again.

A group that exists in the storage is imported while the storage still works on it. The driver says that
it is not ready, the sidecar writes that down, and the sync counts as done: the driver is asked again
when the next resync comes, a quarter of an hour later.

Now a group that is not ready is asked for again with backoff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, DRIVER, groups_get_ready

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def imported(user: User) -> None:
    """A group is imported while the storage still works on it."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 2)
    unready = {"group_snapshot": {"ready_to_use": False}}
    await user.ctx.ask(DRIVER, Fault("GetVolumeGroupSnapshot", count=4, override=unready))
    await storage.take_group(user, "daily", policy="retain")
    await user.sleep((1, 3)[user.choose(2, "pause")])
    await storage.import_group(user, "copy", "daily")
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race 1461",
    workload=imported,
    build=storage.world(volumes=2),
    invariants=(groups_get_ready(), *ALWAYS),
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.6 of the snapshotter (Kubernetes 1.36); fix: none of ours",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a group that is imported gets ready soon after the storage has it ready",
    scenario=SCENARIO,
    schedules=10,
)
