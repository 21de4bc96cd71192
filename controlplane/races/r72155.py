"""Kubernetes issue 72155: a DaemonSet whose expected pods never come has none, for hours.

Before the controller makes pods it notes how many it expects to see, under the name of the set, and does nothing for
that name until they have come or five minutes have passed. Nothing makes it look when these are over. The issue tells
of create requests that timed out. Another way there is found here: a set is deleted and made again under its name
while the controller is at work on the old one, which it read in its cache. It makes the old one's pods, and expects
them under the name; but they have an owner whose uid no set has any more, so their arrival is not counted. The new
set, which waits for expectations that cannot be met, gets its pods when something else touches it: a node, its user,
the resync after half a day.

Open upstream. The repair that is proposed here queues the set for the moment when its expectations expire; so for
ReplicaSets and Jobs, which wait in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.worlds import lagging_servers

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User

NODES = 2
LABELS = {"app": "agent"}
POD = {"containers": [{"name": "main", "image": "app:1"}], "tolerations": [{"operator": "Exists"}]}
AGENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent", "namespace": "default"},
    "spec": {
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": POD},
    },
}
PAUSES_S = (0, 1, 20, 60)
REST_S = 900
"""The wait for the new set's pods, in seconds: three times as long as expectations last."""


async def made_again(user: User) -> None:
    """A DaemonSet is deleted and made again under its name."""
    await user.sleep(5)
    await user.create(AGENT)
    await user.sleep(PAUSES_S[user.choose(len(PAUSES_S), "pause")])
    await user.delete("apps/v1/DaemonSet", "agent")
    await user.create(AGENT)
    await user.sleep(REST_S)


def it_has_pods(run: Run) -> str | None:
    """The set that exists has a pod for each node."""
    (found,) = run.objects("/registry/daemonsets/")
    owned = [
        pod
        for pod in run.objects("/registry/pods/")
        if any(each["uid"] == found.uid for each in pod.metadata.get("ownerReferences", ()))
    ]
    if len(owned) == NODES:
        return None
    return f"DaemonSet {found.name} has {len(owned)} pods of {NODES}, {REST_S} s after it was made"


SCENARIO = Scenario(
    "race 72155",
    workload=made_again,
    build=lagging_servers(heartbeats=False, schedulers=0, enabled_controllers=("daemonset",)),
    invariants=(Invariant("a DaemonSet has its pods", it_has_pods),),
    defaults={"nodes": NODES},
)
RACE = Race(
    module=__name__,
    releases="all: open upstream",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="by chance 85 of 400 sets",
    invariant="a DaemonSet that is not touched has its pods once expectations have expired",
    scenario=SCENARIO,
    schedules=200,
)
