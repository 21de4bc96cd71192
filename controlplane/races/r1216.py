"""external-snapshotter 1214: a retained group that is gone is worked on for ever.

A group whose content is kept is deleted. When it is gone its key is taken out of the private store of
single snapshots, by mistake: in its own it stays. The content's sync finds the dead group there and asks
for it; the group's worker finds it in the store and not in the cache, takes it for just deleted, and
asks for the content. The two do so at full speed, without a single request.

Now the key is taken out of the store it is in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, CONTROLLER, GROUPS, comes_to_rest

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A group whose content is kept is deleted."""
    await storage.claims(user, 2)
    await storage.take_group(user, "daily", policy="retain")
    await user.wait_until(lambda run: storage.ready(run, GROUPS) == 1, patience_s=60)
    await user.sleep((5, 1)[user.choose(2, "pause")])
    await storage.remove(user, "VolumeGroupSnapshot", "daily")
    await user.sleep(60)
    storage.end(user)


SCENARIO = Scenario(
    "race 1216",
    workload=deleted,
    build=storage.world(volumes=2),
    invariants=(comes_to_rest(CONTROLLER), *ALWAYS),
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.1 of the snapshotter; fix: 8.2 (Kubernetes 1.32)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="the controller comes to rest between two requests",
    scenario=SCENARIO,
    schedules=10,
)
