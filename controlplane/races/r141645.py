"""Kubernetes pull request 141645: an update between failure and requeue is lost, or goes round the backoff.

Two windows, one on each side of Done. (requeue) The failure handler reads the pod; an update arrives, and since
the pod is in flight only its event is kept; the handler puts the old object back. What is queued is now older
than what all other components see, until the next update. (backoff) A binding cycle fails and forgets the pod; an
update arrives, finds the pod neither assumed nor in flight nor queued, and puts it into the active queue as new:
backoff and attempts are lost, and the failure handler finds it "already present in the active queue".

The proposed fix keeps the latest object with the in-flight entry, and the entry until the binding cycle has
ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Option, Scenario
from controlplane.scenarios.authoring.workloads import pod
from controlplane.scenarios.authoring.worlds import scheduler_alone, with_plugin
from controlplane.scenarios.invariants.scheduling import (
    NO_REQUEUE_MET_A_COPY,
    QUEUED_OBJECTS_ARE_THE_LATEST,
)

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Setting, User

PART = Option(
    "part",
    choices=("requeue", "backoff"),
    default="requeue",
    help="Which of the two windows: between failure and requeue, or between forget and requeue.",
)


def build(setting: Setting) -> ClusterConfig:
    """The scheduler; with a plugin that fails every binding for the second window."""
    if setting["part"] == "requeue":
        return scheduler_alone()(setting)
    from controlplane.scenarios.authoring.scheduler_plugins import Refuse

    return scheduler_alone(**with_plugin(Refuse))(setting)


async def workload(user: User) -> None:
    """A pod that never becomes schedulable, while a user labels it."""
    await user.sleep(1)
    if user.options["part"] == "backoff":
        await _refused_pod(user)
    else:
        await _retried_pod(user)


async def _retried_pod(user: User) -> None:
    """It does not fit, whatever happens to the node; that is known, so its status does not change again."""
    await user.create(pod("big", "64"))
    for number in range(3):
        await user.sleep(20)
        taint = {"key": "example.com/soft", "value": str(number), "effect": "PreferNoSchedule"}
        await user.patch("Node", "node-1", {"spec": {"taints": [taint]}})
        await _label(user, "big", number)


async def _refused_pod(user: User) -> None:
    await user.create(pod("web"))
    for number in range(4):
        await _label(user, "web", number)
    await user.sleep(10)
    await user.delete("Pod", "web")


async def _label(user: User, name: str, number: int) -> None:
    patch = {"metadata": {"labels": {"touched": str(number)}}}
    await user.attempt(user.patch("Pod", name, patch))


SCENARIO = Scenario(
    "race 141645",
    workload=workload,
    build=build,
    invariants=(QUEUED_OBJECTS_ARE_THE_LATEST, NO_REQUEUE_MET_A_COPY),
    options=(PART,),
    reads_log=True,
    defaults={"nodes": 1, "node_cpu": "2"},
)
RACE = Race(
    module=__name__,
    releases="open upstream",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant=(
        "once nothing moves any more, the queue holds each pod as the API server has it; and no failed attempt"
        " finds its pod in the active queue already"
    ),
    scenario=SCENARIO,
    schedules=400,
)
