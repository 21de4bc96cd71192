"""external-snapshotter 1388: a deletion that waited for the snapshot to be taken is forgotten.

A driver does not answer in time, several times, while it makes a snapshot. Meanwhile the snapshot is
deleted; the sidecar hears of it, but the content carries the mark that something is being made, so it
asks the driver once more. That call succeeds. The sidecar writes the status and takes the mark off, and
both changes are filtered as its own. The content is ready, so it is not retried either.

Now the change that makes a content ready passes the filter. Where the sidecar's cache has that change
but not yet the next one, which took the mark off, the content is taken for old and dropped: the merged
fix leaves that open. In the form "looked-at-again" a content that is being deleted is never dropped so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, DRIVER

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A snapshot is deleted while the driver is slow to make it."""
    from controlplane.controllers.storage.csi.faults import Fault

    await storage.claims(user, 1)
    fault = Fault(
        "CreateSnapshot", count=2, code="DeadlineExceeded", message="too late", when="after"
    )
    await user.ctx.ask(DRIVER, fault)
    await storage.take(user, "daily")
    await user.sleep((0.5, 1, 2)[user.choose(3, "pause")])
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race 1392",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.5 of the snapshotter; fix: 8.6 (Kubernetes 1.36)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="3 of 3 runs with the merged fix",
    invariant="a snapshot that is deleted while it is being made goes soon after it is made",
    scenario=SCENARIO,
    schedules=10,
    fixed={"fix": ("1392=looked-at-again",)},
)
