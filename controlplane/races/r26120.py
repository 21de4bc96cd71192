"""Kubernetes issue 26120: a dependent that should outlive its owner is deleted with it.

A client deletes an owner and asks that its dependents stay. The garbage collector hears of it, takes the owner out
of the references of everything in its graph, and lets the owner go. But caches of different kinds have no order
between them: of an object that was made just before, or when the collector itself has just begun, it may not have
heard yet. That one keeps its reference, its owner is gone now, and the collector deletes it.

Open upstream, where the race is taken to be rare. Proposed were a pause before the owner is let go, which helps as
long as caches lag by less, and a version up to which caches have to have read. The gate is the pause, of two
minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import config_map
from controlplane.scenarios.authoring.worlds import lagging_servers

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User

OWNER = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "owner", "namespace": "default"},
}
KEPT = "uid of what is to stay"


async def orphaned(user: User) -> None:
    """An owner and what it owns are made, and at some moment the owner is deleted alone."""
    from controlplane.client.loops.clientset import Resource

    await user.sleep(20)
    owner = await user.create(OWNER)
    tree = config_map("child")
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner.uid}
    tree["metadata"]["ownerReferences"] = [reference]
    user.notes[KEPT] = (await user.create(tree)).uid
    await user.sleep(user.choose(4, "pause"))
    await user.client.delete(
        Resource("", "v1", "secrets"), "default", "owner", propagation_policy="Orphan"
    )
    await user.sleep(300)


def it_stays(run: Run) -> str | None:
    """The dependent that should outlive its owner exists."""
    uid = run.notes.get(KEPT)
    if uid is None or any(each.uid == uid for each in run.objects("/registry/configmaps/")):
        return None
    return "an object was deleted that its owner's deletion was to leave alone"


SCENARIO = Scenario(
    "race 26120",
    workload=orphaned,
    build=lagging_servers(
        kubelets=False, heartbeats=False, enabled_controllers=("garbage-collector-controller",)
    ),
    invariants=(Invariant("orphans live on", it_stays, ("etcd",)),),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    releases="all: open upstream",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="4 of 4 runs",
    invariant="an object whose owner was deleted with the policy Orphan is not deleted",
    scenario=SCENARIO,
    schedules=60,
)
