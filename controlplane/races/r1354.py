"""external-snapshotter 1280: members that exist already are taken for empty objects.

The members of a group are being made when a later write fails. At the next try the server says that
they exist, an error that counted as success, and work went on with the empty objects that the
client had answered with it: requests for objects without a name, which fail for ever. The group is
never ready.

Now what exists is read from the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, CONTROLLER, groups_get_ready

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def broken(user: User) -> None:
    """A group snapshot is taken while the controller dies at some moment."""
    await storage.claims(user)
    await storage.take_group(user, "daily")
    await storage.die_amid(user, CONTROLLER)
    await user.sleep(100)
    storage.end(user)


SCENARIO = Scenario(
    "race 1354",
    workload=broken,
    build=storage.world(),
    invariants=(groups_get_ready(), *ALWAYS),
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.4 of the snapshotter; fix: 8.5 (Kubernetes 1.35)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a group snapshot that nothing keeps from it becomes ready",
    scenario=SCENARIO,
    schedules=150,
)
