"""Kubernetes issue 105131, pull request 105211: the volume of a claim that was made anew is reclaimed.

A claim is deleted and made again under its name. A fast provisioner makes a volume for the new one. The
volume reaches the binder while its cache still holds the claim that was deleted: the uids differ, so the
volume counts as released, and is deleted in the storage.

Now a claim of another uid is asked for at the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, volume

if TYPE_CHECKING:
    from controlplane.scenarios import User


CLAIMS = 10


async def remade(user: User) -> None:
    """A claim is deleted and made again, and at once a volume that belongs to it."""
    for number in range(CLAIMS):
        await storage.claim_for(user, f"data-{number}")
    await user.sleep(1)
    for number in range(CLAIMS):
        name = f"data-{number}"
        await storage.remove(user, "PersistentVolumeClaim", name)
        while await user.exists("PersistentVolumeClaim", name):
            await user.point("user.wait")
        claim = await storage.claim_for(user, name)
        await storage.volume_for(user, f"pv-{number}", volume(number), claim)
    await user.sleep(60)
    storage.end(user)


SCENARIO = Scenario(
    "race 105211",
    workload=remade,
    build=storage.world(volumes=CLAIMS),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.22; fix: 1.23",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="the volume of a claim that exists stays",
    scenario=SCENARIO,
    schedules=80,
)
