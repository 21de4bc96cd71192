"""Kubernetes issue 132851: a resize is reported complete while more of it is to come.

A pod's worker gets the pod with the resources that were allocated when its update was queued. A first
resize is carried out; before the worker's next sync begins, the kubelet allocates more and sets in the
pod's status that a resize is in progress. The sync compares what it was handed, the first allocation, with
what the containers have, finds them equal, removes the condition and reports ResizeCompleted. A client that
waits for the condition to go takes the resize for complete; later the condition comes back.

Open. The proposal (pull request 141325) reads the current allocation when it compares. Search finds a
hole in that: the sync still carries out what it was handed, so an allocation that was withdrawn meanwhile is
actuated once more. The repair here lets the whole sync go by the current allocation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.invariants.nodes import no_condition_means_done

if TYPE_CHECKING:
    from controlplane.scenarios import User

SIZES = ("500m", "800m", "1500m", "3")


async def resizes(user: User) -> None:
    """A pod on a node is resized again and again; which size is next is a choice."""
    await user.create(pod("web", "500m", nodeName="node-1"))
    await user.sleep(20)
    for _ in range(4):
        size = SIZES[user.choose(len(SIZES), "what size")]
        await user.attempt(user.resize("web", "main", cpu=size))
        await user.sleep(user.choose(3, "how long"))
    await user.sleep(60)


SCENARIO = Scenario(
    "race 132851",
    workload=resizes,
    invariants=(no_condition_means_done("node-1"),),
    defaults={"nodes": 1, "node_cpu": "4"},
)
RACE = Race(
    module=__name__,
    releases="open; with in-place resize (1.33 on)",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a running pod without PodResizeInProgress has its allocated resources",
    scenario=SCENARIO,
    schedules=300,
)
