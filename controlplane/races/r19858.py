"""Kubernetes issue 19858: a controller that restarts onto a stale cache makes its pods twice.

A controller makes the pods of a ReplicaSet, and restarts. Its expectations, which said what it has
asked for, are gone with its memory; its first list comes from an API server whose cache does not show
the pods yet. It counts none, and makes them again.

What helps: caches that begin with a state not older than the request (a stream, or consistent lists).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Fault, Invariant, Option, Scenario
from controlplane.scenarios.authoring.worlds import lagging_servers

if TYPE_CHECKING:
    from controlplane.scenarios import Run, User

REPLICAS = 3

STREAM = Option(
    "watch-list",
    type=bool,
    default=False,
    help="Clients begin with a stream that is not older than their request (gate WatchListClient).",
)


async def replica_set(user: User) -> None:
    """A ReplicaSet with a constant size and no deletion of its pods."""
    labels = {"app": "web"}
    containers = [{"name": "main", "image": "app:1"}]
    await user.create(
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {
                "replicas": REPLICAS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            },
        }
    )


async def restart_manager(user: User) -> None:
    """The controller manager restarts at some moment within a minute."""
    await user.sleep((1 + user.ctx.choose("fault", 30, "when")) * 2)
    user.crash("controller-manager")
    await user.sleep(1)
    user.restart("controller-manager")


def no_surplus(run: Run) -> str | None:
    """More pods than replicas were made by mistake."""
    made = len(run.objects("/registry/pods/"))
    return f"{made} pods for {REPLICAS} replicas" if made > REPLICAS else None


SCENARIO = Scenario(
    "race 19858",
    workload=replica_set,
    build=lagging_servers(kubelets=False, heartbeats=False),
    faults=(Fault("chaos", restart_manager),),
    invariants=(Invariant("no surplus pods", no_surplus, ("etcd",)),),
    options=(STREAM,),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    title="a controller that restarts onto a stale cache makes its pods twice",
    issue="19858",
    releases="up to 1.34 (a list at version 0 begins a cache); from 1.35 a stream does",
    component="controllers",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="after every step of the store there are no more pods than replicas",
    scenario=SCENARIO,
    schedules=60,
    broken={"watch_list": False},
    fixed={"watch_list": True},
)
