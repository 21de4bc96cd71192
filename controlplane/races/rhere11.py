"""The end of a pod that never had a claim prepared unprepares it under the pod that runs with it.

No issue is known. Two pods of a node share a ResourceClaim. One runs with it; the other one is deleted so soon that its
worker begins with the end, or its first try to give the claim back was refused by the driver. The kubelet then
unprepares what the pod's spec names: unprepareResources of pkg/kubelet/cm/dra/manager.go leaves a claim alone if more
than one pod holds it, and does not ask whether the pod that ends is one of them. The driver takes the device from the
pod that runs, the entry of the claim goes from the kubelet's checkpoint, and nothing unprepares the claim when the
running pod ends.

The repair that is proposed here leaves claims alone that the pod does not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.churns import kubelet_parts as parts
from controlplane.scenarios.churns.storage_world import runs
from controlplane.scenarios.invariants.prepared_claims import what_runs_has_its_claims
from controlplane.scenarios.invariants.views import PODS

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import User
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.setting import Setting

CLAIM = parts.CARDS[0]
MOMENTS = 400
"""The steps that the scheduler is given; the kubelet has not been notified of the pod by then."""


def build(setting: Setting) -> ClusterConfig:
    """A node with a DRA driver."""
    return parts.with_cards(nodes_with_managers()(setting))


def user_of_claim(name: str) -> dict[str, Any]:
    """A pod that uses the claim."""
    tree = pod(name, "100m")
    tree["spec"]["resourceClaims"] = [{"name": "card", "resourceClaimName": CLAIM}]
    (one,) = tree["spec"]["containers"]
    one["resources"]["claims"] = [{"name": "card"}]
    return tree


async def shared_and_left(user: User) -> None:
    """A pod runs with the claim; another one is deleted as soon as it has a node."""
    await parts.make_claims(user)
    await user.create(user_of_claim("keeper"))
    await user.wait_until(lambda run: runs(run, "keeper"), patience_s=60)
    await user.create(user_of_claim("guest"))
    await user.wait_steps_until(_guest_has_a_node, MOMENTS)
    await user.attempt(user.delete("Pod", "guest"))
    await user.sleep(60)


def _guest_has_a_node(run: Run) -> bool:
    pods = run.objects(PODS)
    return any(each.name == "guest" and each.tree["spec"].get("nodeName") for each in pods)


SCENARIO = Scenario(
    "race here11",
    workload=shared_and_left,
    build=build,
    invariants=(what_runs_has_its_claims(parts.CARD, "node-1"),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="1.26 on: open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a container runs only while the claims of its pod are prepared",
    scenario=SCENARIO,
    schedules=200,
)
