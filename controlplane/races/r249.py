"""external-snapshotter 248: a retained content can no longer be deleted.

A snapshot whose content is to be kept is deleted. Its finalizers are removed, it vanishes, and the
content's own turn, which should have marked it for the sidecar, finds no snapshot any more. Who
deletes the content by hand later waits for ever.

Now the mark is written before the finalizers are removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, CONTENTS

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A snapshot is deleted, and later its content by hand."""
    await storage.claims(user, 1)
    await storage.take(user, "daily", policy="retain")
    await user.wait_until(lambda run: storage.ready(run) == 1, patience_s=60)
    await user.sleep(2)
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(10)
    for obj in user.run.objects(CONTENTS):
        await storage.remove(user, "VolumeSnapshotContent", obj.name)
    await user.sleep(120)
    storage.end(user)


SCENARIO = Scenario(
    "race 249",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 2.0 of the snapshotter; fix: 2.1 (Kubernetes 1.17)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a content that is deleted after its snapshot went goes as well",
    scenario=SCENARIO,
    schedules=10,
)
