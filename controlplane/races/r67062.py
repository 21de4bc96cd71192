"""Kubernetes issue 66287, pull request 67062: the volume of a claim unknown to the binder is reclaimed.

A client, the scheduler upstream, binds a volume to a claim by writing the claim's uid into the volume. The
volume's change reaches the binder before the claim itself does. The claim is not in the binder's cache,
so it counts as deleted: the volume is released, and what it held is deleted in the storage.

Now a claim that the cache lacks is asked for at the server.
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


async def bound(user: User) -> None:
    """Claims are made, and at once a volume that belongs to each."""
    for number in range(CLAIMS):
        claim = await storage.claim_for(user, f"data-{number}")
        await storage.volume_for(user, f"pv-{number}", volume(number), claim)
    await user.sleep(60)
    storage.end(user)


SCENARIO = Scenario(
    "race 67062",
    workload=bound,
    build=storage.world(volumes=CLAIMS),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.11; fix: 1.12",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="the volume of a claim that exists stays",
    scenario=SCENARIO,
    schedules=40,
)
