"""Kubernetes issue 109429: a pod of a deleted Job keeps its finalizer, and so cannot go.

Pods of Jobs carry a finalizer, so that none is lost before it was counted; the Job's next sync removes it. A pod is
deleted, and the controller, which has the Job in its cache, leaves it to that sync. Then the Job is deleted as
well. The sync finds no Job any more, and the pod is not looked at again: it stays, being deleted, for ever.

Now the pods of a Job that has ended, or is gone, are looked through, and their finalizers removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.races.race import Race
from controlplane.scenarios import Invariant, Scenario
from controlplane.scenarios.authoring.workloads import NAMESPACE

if TYPE_CHECKING:
    from controlplane.cluster import ClusterConfig
    from controlplane.scenarios import Run, Setting, User

TRACKING = "batch.kubernetes.io/job-tracking"
PODS = "/registry/pods/"


def build(setting: Setting) -> ClusterConfig:
    """A cluster with the Job controller and the garbage collector."""
    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.common.selection import STANDARD

    controllers = (*STANDARD, "job", "garbage-collector")
    return ClusterConfig(nodes=setting.nodes(), heartbeats=False, enabled_controllers=controllers)


async def deleted(user: User) -> None:
    """A Job's pods are deleted, and soon after, or just before, the Job."""
    from controlplane.client.loops.clientset import Resource

    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "app:1"}]}
    }
    await user.create(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "work", "namespace": NAMESPACE},
            "spec": {"parallelism": 2, "completions": 2, "template": template},
        }
    )
    await user.wait_until(lambda run: len(run.objects(PODS)) == 2)
    await user.sleep(5)
    pods = await user.list("Pod")
    first = user.choose(2, "the Job first") == 0
    if first:
        for pod in pods:
            await user.attempt(user.delete("Pod", pod.name, grace_period_seconds=0))
        await user.sleep((0, 0.5, 2)[user.choose(3, "pause")])
    await user.client.delete(
        Resource("batch", "v1", "jobs"), NAMESPACE, "work", propagation_policy="Background"
    )
    await user.sleep(120)


def all_are_gone(run: Run) -> str | None:
    """No pod waits for a Job that is gone."""
    if run.objects("/registry/jobs/"):
        return None
    for pod in run.objects(PODS):
        if TRACKING in (pod.metadata.get("finalizers") or ()):
            return f"{pod.key} keeps the finalizer of a Job that is gone"
    return None


SCENARIO = Scenario(
    "race 109429",
    workload=deleted,
    build=build,
    invariants=(Invariant("no pod waits for a Job that is gone", all_are_gone),),
    defaults={"nodes": 1},
)
RACE = Race(
    module=__name__,
    releases="bug: until 1.23; fix: 1.24",
    story=(__doc__ or "").split("\n\n", 1)[1].strip(),
    invariant="once nothing moves, no pod has the tracking finalizer of a Job that is gone",
    scenario=SCENARIO,
    schedules=60,
)
