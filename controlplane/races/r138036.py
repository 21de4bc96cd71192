"""Kubernetes issue 102551: a rolling update that is scaled midway hangs for ever.

A replica set carries a note of what its deployment wanted when it was last sized. Where a live one's note is not
what the deployment wants now, the controller follows the scale and leaves the rollout for a later sync. Following,
it does nothing to the only live replica set if that has the wanted size already, and does not renew its note
either. A client that scales the deployment down by exactly the number of pods that the rollout has taken from the
old replica set, before the new one has its first, leaves it so: the controller sees a scale at every sync, follows
it by doing nothing, and never comes to the rollout.

Reported in 2021 and open upstream in 1.36. The repair that is proposed here, as in pull requests 138036 and 138840,
renews the note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

BEFORE, AFTER = 5, 4
LOOKS = 12
LABELS = {"app": "web"}


def _template(image: str) -> dict[str, Any]:
    return {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }


DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": BEFORE,
        "selector": {"matchLabels": LABELS},
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": _template("web:1"),
    },
}


def build(_setting: Setting) -> ClusterConfig:
    """An API server and the controllers of Deployments and ReplicaSets; their pods never run."""
    from controlplane.cluster import ClusterConfig

    return ClusterConfig(
        nodes=(), kubelets=False, schedulers=0, enabled_controllers=("deployment", "replicaset")
    )


async def scaled_midway(user: User) -> None:
    """A Deployment gets another image and is scaled down during the rollout."""
    await user.create(DEPLOYMENT)
    await user.sleep(5)
    await update(user)
    for _ in range(user.choose(LOOKS, "looks")):
        await user.list("Deployment")
    await scale(user)
    await user.sleep(60)


async def update(user: User) -> None:
    """Give the Deployment another image."""
    await user.patch("apps/v1/Deployment", "web", {"spec": {"template": _template("web:2")}})


async def scale(user: User) -> None:
    """Scale the Deployment down."""
    await user.patch("apps/v1/Deployment", "web", {"spec": {"replicas": AFTER}})


def goes_on(run: Run) -> str | None:
    """The new ReplicaSet has pods: the rollout waits for them to be ready, and none of them runs."""
    sizes = {
        each.tree["spec"]["template"]["spec"]["containers"][0]["image"]: each.tree["spec"][
            "replicas"
        ]
        for each in run.objects("/registry/replicasets/")
    }
    if sizes.get("web:2"):
        return None
    return f"the rollout stopped with {sizes.get('web:1')} pods of the old image and none of the new one"


GOES_ON = Invariant("a rollout goes on", goes_on)
SCENARIO = Scenario(
    "race 138036",
    workload=scaled_midway,
    build=build,
    invariants=(GOES_ON,),
    defaults={"nodes": 0},
)
RACE = Race(
    module=__name__,
    releases="all: open upstream",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    seen="4 of 4 runs",
    invariant="a deployment whose template changed comes to have pods of the new template",
    scenario=SCENARIO,
    schedules=60,
)
