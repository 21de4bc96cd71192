"""Kubernetes issue 104648: a static pod whose file returns under the same UID never starts again.

The manifest of a static pod names its uid. The file is removed, and put back while the pod still stops: the kubelet
hears that a pod is gone, and that a pod of the same uid is there. Its worker is terminating and takes no new pod;
once it has finished, the new pod is forgotten. The pod stays down until the kubelet is restarted.

Pull request 104847 (1.23, and 1.22) remembers that the uid is wanted again: housekeeping forgets the worker that
has finished, and starts another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import static_pod
from controlplane.scenarios.authoring.worlds import nodes_with_static_pods
from controlplane.scenarios.invariants.nodes import static_pods_run

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"
AGENT = static_pod("agent", uid="6f1cf3b4-0000-4000-8000-000000000001", stops_s=3)


async def takes_the_file_away(user: User) -> None:
    """Move the file out of the folder and back."""
    await user.sleep(10)
    for _ in range(3):
        await user.write_manifest(NODE, "agent", None)
        await user.sleep(2 * user.choose(8, "pause"))
        await user.write_manifest(NODE, "agent", AGENT)
        await user.sleep(20)
    await user.sleep(60)


SCENARIO = Scenario(
    "race 104847",
    workload=takes_the_file_away,
    build=nodes_with_static_pods({"agent": AGENT}),
    invariants=(static_pods_run(NODE),),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    releases="bug: 1.22.0; fix: 1.22.2, 1.23",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="once nothing moves, every static pod whose file is there runs",
    scenario=SCENARIO,
    schedules=50,
)
