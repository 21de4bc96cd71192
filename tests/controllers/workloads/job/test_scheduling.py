"""A Job whose pods run all at once gets a Workload and a PodGroup, and its pods are a gang."""

from __future__ import annotations

import pytest

from actors import Context, RandomWalk
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import JOBS
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.controllers.workloads.job.scheduling import pod_group_name

SECOND = 1_000_000_000
GATES = {"GenericWorkload": True, "GangScheduling": True, "WorkloadWithJob": True}


def job_tree(*, count=3, mode="Indexed", completions=None):
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {
            "parallelism": count,
            "completions": completions or count,
            "completionMode": mode,
            "template": template,
        },
    }


def ran(job, *, features=GATES, strategy=None, and_then=None):
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(SECOND)
        await client.create(JOBS, job)
        await ctx.sleep(5 * SECOND)
        if and_then is not None:
            await and_then(client)

    config = ClusterConfig(
        nodes=tuple(node_tree(f"node-{number}", cpu="2") for number in (1, 2)),
        kubelets=False,
        scheduler_features=features,
        enabled_controllers=("job-controller",),
        disabled_admission=("TaintNodesByCondition",),
    )
    cluster = Cluster(config, strategy=strategy)
    cluster.user("user", user)
    assert cluster.world.run("bare").verdict == "quiescent"
    return cluster


def groups_of(cluster):
    return [obj.view for obj in cluster.objects("/registry/podgroups/")]


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_an_indexed_job_runs_as_a_gang(seed):
    cluster = ran(job_tree(), strategy=None if seed is None else RandomWalk(seed))
    (job,) = cluster.objects("/registry/jobs/")
    (workload,) = cluster.objects("/registry/workloads/")
    assert workload.name.startswith("train-") and len(workload.name) <= len("train-") + 10
    assert workload.view.spec.pod_group_templates[0].name == "train-pgt-0"
    (group,) = groups_of(cluster)
    assert group.name == pod_group_name(workload.name, "train-pgt-0")
    assert group.spec.scheduling_policy.gang.min_count == 3
    owners = [(each.kind, bool(each.controller)) for each in group.metadata.owner_references]
    assert owners == [("Job", True), ("Workload", False)]
    pods = [obj.view for obj in cluster.objects("/registry/pods/")]
    assert len(pods) == 3 and all(pod.spec.node_name for pod in pods)
    for pod in pods:
        assert pod.spec.scheduling_group.pod_group_name == group.name
        kinds = [(each.kind, each.uid) for each in pod.metadata.owner_references]
        assert kinds == [("Job", job.uid), ("PodGroup", group.metadata.uid)]


@pytest.mark.parametrize(
    "job", [job_tree(mode="NonIndexed"), job_tree(completions=5), job_tree(count=1)]
)
def test_other_jobs_are_scheduled_pod_by_pod(job):
    assert groups_of(ran(job)) == []


def test_without_the_gate_no_job_is_a_gang():
    assert groups_of(ran(job_tree(), features={"GenericWorkload": True})) == []


def test_the_parallelism_of_a_gang_stays():
    refused: list[str] = []

    async def change(client: Client) -> None:
        try:
            await client.patch(JOBS, "default", "train", {"spec": {"parallelism": 2}})
        except ApiError as error:
            refused.append(str(error))

    cluster = ran(job_tree(), and_then=change)
    (group,) = groups_of(cluster)
    text = "cannot change parallelism for a Job referencing gang-scheduled PodGroup"
    assert f'{text} "{group.name}"' in refused[0]


def test_long_names_share_the_room():
    name = pod_group_name("w" * 200, "t" * 200)
    assert len(name) <= 253 and name.startswith("w" * 121) and "t" * 120 in name
    assert pod_group_name("w", "t" * 250).startswith("w-t")
