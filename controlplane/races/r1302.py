"""external-snapshotter 1258: a deletion that the sidecar missed is never heard of again.

The sidecar looks at an update of a content only if something that matters has changed; of its own
writes nothing does. A deletion waits for the driver's answer, which is such a write, and so nothing
tells the sidecar to go on. The informers' resync every quarter of an hour would, but an update
without a change was filtered as well.

Now an update that brings the version that was there already always passes.
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
    """A snapshot is deleted while it is being made."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    await user.ctx.ask(DRIVER, Fault("CreateSnapshot", count=1, delay_ns=20 * SECOND))
    await storage.take(user, "daily")
    await user.sleep((5, 1)[user.choose(2, "pause")])
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(1000)
    storage.end(user)


SCENARIO = Scenario(
    "race 1302",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.2 of the snapshotter; fix: 8.3 (Kubernetes 1.33)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a snapshot that is deleted while it is being made goes after the next resync at the latest",
    scenario=SCENARIO,
    schedules=10,
)
