"""external-snapshotter 1212: a retained group vanishes before its content is marked.

A group snapshot whose content is to be kept had no finalizer. Deleted, it vanishes at once, its content is never
marked for the sidecar, and a client that deletes that content by hand later waits for ever.

Now such groups have the finalizer too, and the content is marked before it is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, GROUP_CONTENTS, GROUPS

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A group snapshot is deleted, and later its content by hand."""
    await storage.claims(user)
    await storage.take_group(user, "daily", "retain")
    await user.wait_until(lambda run: storage.ready(run, GROUPS) == 1, patience_s=60)
    await user.sleep(5)
    await storage.remove(user, "VolumeGroupSnapshot", "daily")
    await user.sleep(20)
    for obj in user.run.objects(GROUP_CONTENTS):
        await storage.remove(user, "VolumeGroupSnapshotContent", obj.name)
    await user.sleep(120)
    storage.end(user)


SCENARIO = Scenario(
    "race 1224",
    workload=deleted,
    build=storage.world(),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.1 of the snapshotter; fix: 8.2 (Kubernetes 1.32)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a group content that is deleted after its group went goes as well",
    scenario=SCENARIO,
    schedules=5,
)
