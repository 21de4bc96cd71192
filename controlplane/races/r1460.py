"""external-snapshotter 1460: deleting a snapshot fails because its content is gone already.

A snapshot is deleted whose content another client has removed in the meantime. The controller still knows the
content, requests its deletion, gets "not found", and takes that for a failure: it reports an error and begins
again.

Now a content that is gone counts as deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import CONTENTS, no_event

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A snapshot is deleted while a user removes its content by force."""
    await storage.claims(user, 1)
    await storage.take(user, "daily")
    await user.wait_until(lambda run: storage.ready(run) == 1, patience_s=60)
    await user.sleep(2)
    await storage.remove(user, "VolumeSnapshot", "daily")
    for _ in range(user.choose(20, "moment")):
        await user.point("user.wait")
    for obj in user.run.objects(CONTENTS):
        await storage.force_away(user, obj.name)
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race 1460",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=(no_event("SnapshotContentObjectDeleteError"),),
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.6 of the snapshotter (Kubernetes 1.36); fix: none of ours",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="deleting what is gone already is no error",
    scenario=SCENARIO,
    schedules=10,
)
