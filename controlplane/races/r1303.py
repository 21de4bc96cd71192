"""external-snapshotter 1301: a snapshot is deleted, and its content stays because an error was swallowed.

The sidecar has deleted a snapshot in the storage and goes on, in the same call, to let the content go.
That write fails, the error is written into the log, and the call counts as done: nothing is left that
would try again before the next resync.

Now the error is returned, and the content is tried again with backoff.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, SIDECAR

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """A snapshot is deleted, and what the sidecar sends at some moment of that is lost."""
    await storage.claims(user, 1)
    await storage.take(user, "daily")
    await user.wait_until(lambda run: storage.ready(run) == 1, patience_s=60)
    await user.sleep(2)
    user.delay(SIDECAR, "apiserver", 0.02)
    await storage.remove(user, "VolumeSnapshot", "daily")
    await user.sleep(0.02 * user.choose(12, "moment"))
    user.lose(SIDECAR, "apiserver")
    await user.sleep(300)
    storage.end(user)


SCENARIO = Scenario(
    "race 1303",
    workload=deleted,
    build=storage.world(volumes=1),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.2 of the snapshotter; fix: 8.3 (Kubernetes 1.33)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a content whose snapshot was deleted goes, in the time that some retries take",
    scenario=SCENARIO,
    schedules=60,
)
