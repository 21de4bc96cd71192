"""Kubernetes issue 126033: a container starts with a size that was never allocated.

A resize has to wait, or can never be. Then the pod's container ends and is started again, as its policy wants it:
the new one is made from the pod's spec, which asks for the new size. So it has resources that were never allocated,
and a part of the node is given away twice.

Fixed with the redesign of 1.33: a pod's worker always gets the pod with its allocated resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.nodes import nothing_starts_with_more_than_promised

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"

SIZES = ("500m", "1", "2", "4")


async def resizes_and_ends(user: User) -> None:
    """Pods are resized, and some of them end and begin again."""
    for name in ("a", "b", "c"):
        tree = pod(name, "500m", nodeName=NODE)
        if user.choose(2, "fails twice"):
            tree["spec"]["restartPolicy"] = "OnFailure"
            tree["metadata"]["annotations"] = {
                "emulate.controlplane/run-seconds": "9",
                "emulate.controlplane/exit-codes": "1,1,0",
            }
        await user.create(tree)
    await user.sleep(5)
    for _ in range(5):
        name = ("a", "b", "c")[user.choose(3, "who")]
        await user.attempt(user.resize(name, "main", cpu=SIZES[user.choose(4, "to what size")]))
        await user.sleep(user.choose(6, "pause"))
    await user.sleep(40)


SCENARIO = Scenario(
    "race 126033",
    workload=resizes_and_ends,
    invariants=(nothing_starts_with_more_than_promised(NODE),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="1.27 to 1.32, while in-place resize was alpha",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="at its start no container has more than its allocation",
    scenario=SCENARIO,
    schedules=100,
    # An allocation that is withdrawn between a sync's beginning and the start is race 132851.
    broken={"without_fix": ("126033",), "fix": ("132851",)},
    fixed={"fix": ("132851",)},
)
