"""Kubernetes issue 105200: a Job counts a finished pod twice, and completes early.

A pod of a Job succeeds. The controller writes its uid among the uncounted, removes the pod's finalizer, takes the uid
out again and raises the counter. It hears of the Job's new status before it hears of the pod's new form: the pod
still has its finalizer and its uid is not among the uncounted. So it is counted once more.

Since then the controller remembers whose finalizers it has removed, and passes them over until it has seen that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import NAMESPACE

if TYPE_CHECKING:
    from typing import Any

    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

COMPLETIONS = 3
SEEN = "uids of succeeded pods"


def build(setting: Setting) -> ClusterConfig:
    """A cluster with the Job controller, and watches that lag by up to some seconds."""
    from controlplane.apiserver.loops.replica import ReplicaOptions
    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.common.selection import STANDARD

    return ClusterConfig(
        nodes=setting.nodes(),
        heartbeats=False,
        enabled_controllers=(*STANDARD, "job-controller"),
        replica=ReplicaOptions(lag_ns=10_000_000_000, lagging=("apiserver",)),
    )


def job(completions: int, parallelism: int) -> dict[str, Any]:
    """A Job whose pods run for three seconds."""
    template = {
        "metadata": {"annotations": {"emulate.controlplane/run-seconds": "3"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "namespace": NAMESPACE},
        "spec": {"parallelism": parallelism, "completions": completions, "template": template},
    }


async def runs(user: User) -> None:
    """A Job runs to its end without any deletion."""
    await user.create(job(COMPLETIONS, 1))
    await user.sleep(400)


def counted_once(run: Run) -> str | None:
    """No more pods are counted than have succeeded."""
    seen: dict[str, None] = run.notes.setdefault(SEEN, {})
    for pod in run.objects("/registry/pods/"):
        if pod.tree.get("status", {}).get("phase") == "Succeeded":
            seen[pod.uid] = None
    for each in run.objects("/registry/jobs/"):
        counted = each.tree.get("status", {}).get("succeeded") or 0
        if counted > len(seen):
            return f"{counted} pods are counted, {len(seen)} have succeeded"
    return None


SCENARIO = Scenario(
    "race 105200",
    workload=runs,
    build=build,
    invariants=(Invariant("each pod counts once", counted_once, ("etcd",)),),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    releases="bug: 1.22 (alpha); fix: 1.23",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="after every step of the store, status.succeeded is at most the number of pods that succeeded",
    scenario=SCENARIO,
    schedules=60,
)
