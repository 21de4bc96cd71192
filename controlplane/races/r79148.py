"""Kubernetes issue 79147: a mirror pod is deleted by its name, and the one that replaced it goes with it.

A user deletes the mirror pod of a static pod. The kubelet's next sync sees that it is to go, deletes it at once and
creates another under the same name. The sync after that was handed the old object once more, because its deletion
was heard of only then: it deletes by name, the new mirror dies, and a third one is made, for which the same may
happen again (issue 74161: for ever).

Pull request 79148 (1.16) lets the kubelet delete only the object that it saw: the request carries its uid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import static_pod
from controlplane.scenarios.authoring.worlds import nodes_with_static_pods
from controlplane.scenarios.invariants.nodes import mirrors_stay

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"
UID = "6f1cf3b4-0000-4000-8000-000000000001"


async def deletes_mirrors(user: User) -> None:
    """A user mistakes the mirror for a pod and deletes it; another user changes the file."""
    await user.sleep(10)
    for at in range(4):
        await user.attempt(user.delete("Pod", f"agent-{NODE}"))
        for touched in range(2):
            await user.sleep(user.choose(4, "before the file is touched"))
            label = {"touched": f"{at}-{touched}"}
            await user.write_manifest(NODE, "agent", static_pod("agent", uid=UID, labels=label))
        await user.sleep(20)
    await user.sleep(30)


SCENARIO = Scenario(
    "race 79148",
    workload=deletes_mirrors,
    build=nodes_with_static_pods({"agent": static_pod("agent", uid=UID)}, lag_s=5),
    invariants=(mirrors_stay(NODE),),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    releases="bug: up to 1.15; fix: 1.16",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="a mirror pod stays until its deletion is requested",
    scenario=SCENARIO,
    schedules=100,
)
