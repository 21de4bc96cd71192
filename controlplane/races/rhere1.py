"""DELETECOLLECTION lists, and then deletes by name: also what has come to that name since, or matches no longer.

No issue is known; a comment in upstream's code says that the operation is not atomic. `Store.DeleteCollection` lists
the objects of a selector and deletes each by its key, without preconditions. An object that was relabelled
meanwhile goes, and so does a new one of the same name that never had the label.

The repair that is proposed here deletes with uid and version of the listed object, and after a conflict looks again
whether it still is that one and matches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import config_map

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

NAMES = ("one", "two", "three")
KEPT = "kept"


def build(_setting: Setting) -> ClusterConfig:
    """An API server, and no other component."""
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(nodes=(), kubelets=False, controllers=False, scheduler_watches=())


async def cleaner(user: User) -> None:
    """Deletes all config maps of an old label."""
    from controlplane.api.request import Request

    query = {"labelSelector": "age=old"}
    await user.client.call(
        Request("deletecollection", resource="configmaps", namespace="default", query=query)
    )


async def relabelled(user: User) -> None:
    """While old config maps are deleted, one of them gets another label: it is to stay."""
    for name in NAMES:
        tree = config_map(name)
        tree["metadata"]["labels"] = {"age": "old"}
        await user.create(tree)
    cleaning = user.spawn(cleaner)
    name = NAMES[user.choose(len(NAMES), "which")]
    if await user.attempt(user.patch("ConfigMap", name, {"metadata": {"labels": {"age": "new"}}})):
        user.run.notes[KEPT] = name
    await user.join(cleaning)


def stays(run: Run) -> str | None:
    """Return the config map that was deleted although it had another label by then."""
    name = run.notes.get(KEPT)
    if name is None or any(each.name == name for each in run.objects("/registry/configmaps/")):
        return None
    return f"{name} had the label age=new when it was deleted by the selector age=old"


SCENARIO = Scenario(
    "race here1",
    workload=relabelled,
    build=build,
    invariants=(Invariant("a selector deletes what matches it", stays),),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    releases="all: open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="6 of 6 runs, 3 of them with a new object of the name",
    invariant="a deletion by a selector deletes only objects that match it",
    scenario=SCENARIO,
)
