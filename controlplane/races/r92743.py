"""Kubernetes issue 65200: a reference into another namespace has the children of a living owner deleted.

An object refers to an owner in another namespace, which is not allowed, but is not refused. The garbage
collector begins and happens to hear of that object first. It looks for the owner in the object's own namespace,
finds none, and remembers: the owner with this uid is absent. Then it looks at the children that the owner has in its
own namespace, sees the uid among the absent, and deletes them, while their owner lives.

Since pull request 92743 an owner is absent by namespace, kind, name and uid, and only those go that mean just it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.races.race import Race
from controlplane.scenarios import Fault, Invariant, Scenario
from controlplane.scenarios.authoring.faults import restarts
from controlplane.scenarios.authoring.workloads import config_map

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

OWNER = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "owner", "namespace": "default"},
}
CHILDREN = ("one", "two")
MADE = "the children are there"


def build(_setting: Setting) -> ClusterConfig:
    """An API server and a garbage collector."""
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(
        nodes=(),
        kubelets=False,
        heartbeats=False,
        enabled_controllers=("garbage-collector-controller",),
    )


def owned(tree: dict[str, Any], uid: str) -> dict[str, Any]:
    """The object with a reference to the owner."""
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": uid}
    tree["metadata"]["ownerReferences"] = [reference]
    return tree


async def family(user: User) -> None:
    """An owner with children, and one more that claims to be its child from another namespace."""
    await user.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "another"}})
    owner = await user.create(OWNER)
    for name in CHILDREN:
        await user.create(owned(config_map(name), owner.uid))
    user.notes[MADE] = True
    stray = owned(config_map("stray"), owner.uid)
    stray["metadata"]["namespace"] = "another"
    await user.create(stray)
    await user.sleep(60)


def children_live(run: Run) -> str | None:
    """The owner is never deleted, so its children are there."""
    if MADE not in run.notes:
        return None
    there = {each.key for each in run.objects("/registry/configmaps/")}
    lost = [name for name in CHILDREN if f"default/{name}" not in there]
    return f"the child {lost[0]} of a living owner was deleted" if lost else None


SCENARIO = Scenario(
    "race 92743",
    workload=family,
    build=build,
    faults=(Fault("chaos", restarts("controller-manager", 2).main),),
    invariants=(Invariant("children of the living live", children_live, ("apiserver",)),),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.19; fix: 1.20",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="after every step of the API server, the children of an owner that is not deleted exist",
    scenario=SCENARIO,
    schedules=60,
)
