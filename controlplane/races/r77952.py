"""An update that empties the finalizers of a dying object removes the object that was created under its name since.

No issue is known. Since pull request 77952 (1.15) an update that takes the last finalizer off an object under
deletion removes it: `Store.Update` decides by the object that it read, and then deletes by key. For a PATCH there are
no preconditions, and `conditionalDelete` takes whatever has the key by then.

Two clients take the finalizer off: two replicas, a retry, kubectl beside a controller. The first one's removal is
done, a third client creates the object anew, and the second one's removal takes the new one: without a deletion
timestamp, without a DELETE request in the audit log, without admission, and in spite of the new object's own
finalizers.

By chance alone it took 484 of 2,010 ConfigMaps on a real 1.36.2 server, and 3 of 132 pods of a StatefulSet.

The repair that is proposed here puts uid and version of the object that was looked at before the deletion, and runs
the update again when they do not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import config_map

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

FINALIZER = "example.com/cleanup"
NAME = "settings"
MADE = "made anew"


def build(_setting: Setting) -> ClusterConfig:
    """Two API servers over one store, and no other component."""
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(
        nodes=(), apiservers=2, kubelets=False, controllers=False, scheduler_watches=()
    )


async def cleaner(user: User) -> None:
    """Takes the finalizer off, as a controller does that has cleaned up."""
    without = {"metadata": {"finalizers": None}}
    await user.attempt(user.patch("ConfigMap", NAME, without))


async def recreated(user: User) -> None:
    """An object with a finalizer is deleted, two clients take it off, and a third makes the object anew."""
    first = config_map(NAME)
    first["metadata"]["finalizers"] = [FINALIZER]
    await user.create(first)
    await user.delete("ConfigMap", NAME)
    cleaners = [user.spawn(cleaner) for _ in range(2)]
    while not await user.attempt(user.create(config_map(NAME))):
        await user.sleep(0.1)
    user.run.notes[MADE] = True
    for each in cleaners:
        await user.join(each)


def stays(run: Run) -> str | None:
    """Return whether the object that was created last is there: nothing has deleted it."""
    if MADE not in run.notes:
        return None
    if not any(each.name == NAME for each in run.objects("/registry/configmaps/")):
        return f"{NAME} was created anew and not deleted, and it is gone"
    return None


SCENARIO = Scenario(
    "race 77952",
    workload=recreated,
    build=build,
    invariants=(Invariant("what is not deleted stays", stays),),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    releases="open upstream, not reported",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="with webhooks as points 10 of 10 runs; by chance 484 of 2,010 ConfigMaps and 3 of 132 StatefulSet pods",
    invariant="an object that was created and not deleted stays",
    scenario=SCENARIO,
    schedules=400,
)
