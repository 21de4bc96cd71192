"""external-snapshotter 1446: a content waits for an annotation that the client's rate limit delays.

A client deletes many snapshots with their contents at once. The sidecar touches no content that is being deleted
before the snapshot controller has marked it, and the controller's client sends five requests a second: the last
marks are written after all earlier requests, up to a minute later. Until then the storage keeps data that no object
refers to any more.

The proposal lets the sidecar go on without the mark if the content is bound. It is not merged; with it a content
that is deleted by itself takes the data of a snapshot that lives along.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, SNAPSHOTS, handed_over_soon

if TYPE_CHECKING:
    from controlplane.scenarios import User

SNAPSHOTS_TAKEN = 16
RATE = (5, 10)


async def cleaned_up(user: User) -> None:
    """Many snapshots are taken; then all of them are deleted, and their contents."""
    await storage.claims(user, 1)
    for number in range(SNAPSHOTS_TAKEN):
        await storage.take(user, f"daily-{number}")
    await user.wait_until(lambda run: storage.ready(run) == SNAPSHOTS_TAKEN, every_s=5)
    await user.sleep((60, 90)[user.choose(2, "pause")])
    names = [(each.name, f"snapcontent-{each.uid}") for each in user.run.objects(SNAPSHOTS)]
    for name, content in names:
        await storage.remove(user, "VolumeSnapshotContent", content)
        await storage.remove(user, "VolumeSnapshot", name)
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race 1446",
    workload=cleaned_up,
    build=storage.world(volumes=1, client_rate=RATE),
    invariants=(handed_over_soon(), *ALWAYS),
)
RACE = Race(
    module=__name__,
    releases="bug: all releases; fix: proposed",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a content that is deleted is handed to the driver soon",
    scenario=SCENARIO,
    schedules=5,
)
