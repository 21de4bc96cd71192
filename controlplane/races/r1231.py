"""external-snapshotter 1231: members of a group are deleted one by one.

When a group snapshot is deleted its members' contents are deleted too, and the sidecar called
DeleteSnapshot for each, while or before the driver deleted the group. Drivers that forbid it
refuse, and the deletion is stuck; drivers that allow it find members missing.

Now the members of a group are deleted by the group's call alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, GROUPS

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A group snapshot is taken and deleted."""
    await storage.claims(user)
    await storage.take_group(user, "daily")
    await user.wait_until(lambda run: storage.ready(run, GROUPS) == 1, patience_s=60)
    await user.sleep(5)
    await storage.remove(user, "VolumeGroupSnapshot", "daily")
    await user.sleep(120)
    storage.end(user)


SCENARIO = Scenario(
    "race 1231",
    workload=deleted,
    build=storage.world(),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.1 of the snapshotter; fix: 8.2 (Kubernetes 1.32)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="DeleteSnapshot is never called for a member of a group",
    scenario=SCENARIO,
    schedules=5,
)
