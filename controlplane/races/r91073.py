"""Kubernetes issue 91073: one API server's resourceVersion is too large for another as long as no write happens.

Two API servers over one store. Nothing of kind X changes, so each one's cache of X is as far as its own
first list. The second server began later, at a higher version, and hands that out; the first server is
asked to list X at that version, waits for its cache to get there, and refuses: "Too large resource
version". Its cache will not get there before an X is written.

The fix (KEP-1904): the store tells how far a watch without events is, so idle caches advance. A reflector
treats the refusal like an expired version and asks again without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Option, Scenario
from controlplane.scenarios.authoring.workloads import config_map

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

PROGRESS = Option(
    "progress-notify",
    type=bool,
    default=True,
    help="The store tells how far a watch without events is (KEP-1904).",
)
REFUSED = "refusal"


def build(setting: Setting) -> ClusterConfig:
    """Two API servers over one store, and no other component."""
    from controlplane.apiserver.loops.replica import ReplicaOptions
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(
        nodes=(),
        apiservers=2,
        replica=ReplicaOptions(progress_notify=setting["progress_notify"]),
        kubelets=False,
        controllers=False,
        scheduler_watches=(),
    )


async def traveller(user: User) -> None:
    """Takes a version from one server to the other."""
    from controlplane.client.errors import ApiError, is_too_large
    from controlplane.client.loops.clientset import Client, Resource
    from controlplane.client.loops.connection import RestConfig
    from controlplane.cluster import node_tree

    config_maps = Resource("", "v1", "configmaps")
    first = Client(user.ctx, RestConfig(("apiserver",)))
    second = Client(user.ctx, RestConfig(("apiserver-2",)))
    await user.create(config_map("x"))
    await second.list(config_maps, "default", resourceVersion="0")
    await user.create(node_tree("later"))
    user.crash("apiserver")
    user.restart("apiserver")
    await user.sleep(1)
    version = (await first.list(config_maps, resourceVersion="0")).resource_version
    try:
        await second.list(config_maps, "default", resourceVersion=version)
    except ApiError as error:
        if not is_too_large(error):
            raise
        user.notes[REFUSED] = error.message


def none_is_too_large(run: Run) -> str | None:
    """The second server takes the first one's version."""
    return run.notes.get(REFUSED)


SCENARIO = Scenario(
    "race 91073",
    workload=traveller,
    build=build,
    invariants=(Invariant("a version of one server is good for another", none_is_too_large),),
    options=(PROGRESS,),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    title="a version from one API server is too large for another",
    issue="91073",
    releases="bug: before 1.20; fix: 1.20",
    component="apiserver",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="any version that one API server hands out is usable with another",
    scenario=SCENARIO,
    schedules=20,
    broken={"progress_notify": False},
    fixed={"progress_notify": True},
)
