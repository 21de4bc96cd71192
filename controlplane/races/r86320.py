"""Kubernetes issue 82387: the status of a deleted pod is written to the one that has its name now.

The kubelet's status manager reads a pod by its name, sees that it is the one whose status it has to send, and
patches its status. Between the two the pod is deleted and created again under its name, as a StatefulSet does.
The patch names nothing but the name: the new pod gets the old one's status, Failed perhaps, and counts as reported
up to the old one's version, so that its own first statuses are never sent.

Since pull request 86320 the patch carries the uid, and the server refuses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import nodes_with_managers
from controlplane.scenarios.invariants.nodes import statuses_are_their_own

if TYPE_CHECKING:
    from controlplane.scenarios import User

NODE = "node-1"


async def recreated(user: User) -> None:
    """A pod is deleted, by force or in good order, and comes again under its name."""
    for _ in range(12):
        name = "web"
        if await user.exists("Pod", name):
            grace = user.choose(4, "in good order") // 3
            await user.attempt(user.delete("Pod", name, grace_period_seconds=grace))
        await user.attempt(user.create(pod(name, nodeName=NODE)))
        await user.sleep(user.choose(8, "pause"))
    await user.sleep(30)


SCENARIO = Scenario(
    "race 86320",
    workload=recreated,
    build=nodes_with_managers(),
    invariants=(statuses_are_their_own(NODE),),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.17.0; fix: 1.17.1, backported to 1.15 and 1.16",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="the containers that a pod's status tells of are the pod's own",
    scenario=SCENARIO,
    schedules=300,
)
