"""The snapshot controller removes a content before it has its finalizer, and the snapshot stays in the storage.

No issue is known. The controller creates the content of a new VolumeSnapshot without a finalizer, keeps it in its own
store, and adds `volumesnapshotcontent-bound-protection` when its informer tells it of the content, which may be late.
The sidecar calls CreateSnapshot as soon as it has the content; it waits for no finalizer. A VolumeSnapshot that is
deleted in between is worked on with the content of the controller's own store: the controller marks that and deletes
it, nothing holds it, and the sidecar finds nothing to hand to DeleteSnapshot. What the driver has made is referred to
by no object.

The repair that is proposed here creates the content with its finalizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.controller_faults import unobserved_state
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import no_leak

if TYPE_CHECKING:
    from controlplane.scenarios import User

PAUSES_S = (0.02, 0.1, 0.5, 2)


async def taken_and_deleted(user: User) -> None:
    """A snapshot is taken and deleted soon."""
    await storage.claims(user, 1)
    await storage.storage_class(user)
    await storage.take(user, "daily")
    await user.sleep(PAUSES_S[user.choose(len(PAUSES_S), "pause")])
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race here10",
    workload=taken_and_deleted,
    build=storage.world(volumes=1),
    faults=(unobserved_state("snapshot-controller", points="watch volumesnapshotcontents"),),
    invariants=(no_leak(),),
)
RACE = Race(
    module=__name__,
    releases="open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="nothing is left in the storage that no object refers to",
    scenario=SCENARIO,
    schedules=120,
)
