"""external-snapshotter 533: a driver that refuses a snapshot is asked again without backoff.

A driver refuses to take a snapshot. The sidecar marks the content before each call and takes the mark
off afterwards, and both writes come back to it as changes of the content: each puts the content into
the queue at once, beside the retry that is to wait. The driver is asked as fast as it can refuse.

Now changes that the sidecar makes itself do not wake it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, DRIVER

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def refused(user: User) -> None:
    """A driver refuses a snapshot for some time."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    fault = Fault("CreateSnapshot", count=60, code="Internal", message="no space")
    await user.ctx.ask(DRIVER, fault)
    await storage.take(user, "daily")
    await user.sleep(60)
    storage.end(user)


SCENARIO = Scenario(
    "race 651",
    workload=refused,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 5.0 of the snapshotter; fix: 6.0 (Kubernetes 1.24)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="between two calls for one snapshot is the backoff of its failures",
    scenario=SCENARIO,
    schedules=5,
)
