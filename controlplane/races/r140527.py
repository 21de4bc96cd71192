"""Kubernetes pull request 140527: a pod gets a claim that is being unprepared for another one.

Two pods of a node share a ResourceClaim. The kubelet has the driver unprepare it when the last pod that holds it ends,
and gives up the lock of its cache for the call. A pod that comes meanwhile finds the claim prepared, joins its holders
and starts without a call of its own: its containers run while the driver takes the device back, and the entry that it
joined goes from the cache. Nothing prepares the claim again, and nothing unprepares it when the pod ends.

Since the repair a claim is marked before the call; a pod that finds the mark fails to prepare and tries again later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.api.times import SECOND
from controlplane.kubelet.cm.dra.driver import DriverFault, driver_actor
from controlplane.kubelet.cm.dra.messages import UNPREPARE
from controlplane.races.race import Race
from controlplane.races.rhere11 import build, user_of_claim
from controlplane.scenarios import Scenario
from controlplane.scenarios.churns import kubelet_parts as parts
from controlplane.scenarios.churns.storage_world import runs
from controlplane.scenarios.invariants.prepared_claims import what_runs_has_its_claims

if TYPE_CHECKING:
    from controlplane.scenarios import User


async def handed_on(user: User) -> None:
    """A pod that runs with the claim is deleted as another one with the same claim comes."""
    await parts.make_claims(user)
    await user.create(user_of_claim("first"))
    await user.wait_until(lambda run: runs(run, "first"), patience_s=60)
    slow = DriverFault(UNPREPARE, delay_ns=SLOW_S * SECOND, claim="none")
    await user.ctx.ask(driver_actor(parts.CARD, "node-1"), slow)
    await user.attempt(user.delete("Pod", "first"))
    await user.sleep(BETWEEN_S)
    await user.create(user_of_claim("second"))
    await user.sleep(90)


SLOW_S = 20
"""The time that the driver takes to give a device back, without any failure."""
BETWEEN_S = 10
"""The time from the deletion of the first pod to the second one: upstream's window is the driver's call."""
SCENARIO = Scenario(
    "race 140527",
    workload=handed_on,
    build=build,
    invariants=(what_runs_has_its_claims(parts.CARD, "node-1"),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="1.26 to 1.36",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a container runs only while the claims of its pod are prepared",
    scenario=SCENARIO,
    schedules=200,
)
