"""external-snapshotter 957: a conflict leaves the finalizer on a claim.

Several snapshots of one claim become ready, or are deleted, at the same time, and others write the
claim as well. Of the workers that take the finalizer off the claim one gets a conflict. At the
start of a sync that is only reported, and the snapshot, being ready, is not synced again: the
finalizer stays, and the claim can never be deleted.

Now the claim is read and written again. The first fix did so as well, but wrapped the error, so
that no conflict was recognised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import storage_world as storage
from controlplane.scenarios.invariants.storage import ALWAYS, NAMESPACE

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def deleted(user: User) -> None:
    """Two snapshots of a claim are taken while a user labels it; then the claim is deleted."""
    await storage.claims(user, 1)
    await storage.take(user, "one")
    await storage.take(user, "two")
    for number in range(12):
        labels = {"metadata": {"labels": {"seen": str(number)}}}
        await user.attempt(user.patch("PersistentVolumeClaim", "pvc-0", labels, NAMESPACE))
        await user.point("user.label")
    await user.wait_until(lambda run: storage.ready(run) == 2, patience_s=60)
    await user.sleep(10)
    await storage.remove(user, "PersistentVolumeClaim", "pvc-0")
    await user.sleep(100)
    storage.end(user)


SCENARIO = Scenario(
    "race 1339",
    workload=deleted,
    build=storage.world(volumes=1, call_ns=0),
    invariants=ALWAYS,
)
RACE = Race(
    module=__name__,
    releases="bug: until 8.5 of the snapshotter; fix: 8.6 (Kubernetes 1.36)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a claim that is deleted goes once its snapshots are ready",
    scenario=SCENARIO,
    schedules=150,
)
