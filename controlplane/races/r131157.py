"""Kubernetes issue 131157: the condition of a resize carries the generation of a later resize.

PodResizeInProgress says with observedGeneration which generation of the spec is being carried out. Each sync of the
pod sets the condition anew, with the generation that the pod has by then. When another resize is asked for that has
to wait, the condition of the one under way names the new one: a client that waits for a generation reads that it is
in progress, and in PodResizePending that it waits.

Fixed: the generation is set once, when the resize is allocated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.nodes import conditions_name_their_resize

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"

USED = "emulate.controlplane/memory-usage"
SIZES = ("256Mi", "1Gi", "2Gi")


async def resizes(user: User) -> None:
    """Pods that use some of their memory are resized again and again: less does not come at once."""
    for name in ("a", "b"):
        tree = pod(name, "500m", nodeName=NODE)
        tree["metadata"]["annotations"] = {USED: "512Mi"}
        (one,) = tree["spec"]["containers"]
        one["resources"] = {
            part: {"cpu": "500m", "memory": "1Gi"} for part in ("requests", "limits")
        }
        await user.create(tree)
    await user.sleep(15)
    for _ in range(6):
        name = ("a", "b")[user.choose(2, "who")]
        amounts = {
            "cpu": ("500m", "1", "3500m")[user.choose(3, "CPU")],
            "memory": SIZES[user.choose(len(SIZES), "memory")],
        }
        both = {"requests": amounts, "limits": amounts}
        change = {"spec": {"containers": [{"name": "main", "resources": both}]}}
        await user.attempt(user.patch("Pod", name, change, subresource="resize"))
        await user.sleep(user.choose(15, "pause"))
    for name in ("a", "b"):
        await user.attempt(user.delete("Pod", name))
    await user.sleep(40)


SCENARIO = Scenario(
    "race 131157",
    workload=resizes,
    invariants=(conditions_name_their_resize(NODE),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="1.33; fixed by 1.34",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a generation that waits is not said to be in progress",
    scenario=SCENARIO,
    schedules=200,
)
