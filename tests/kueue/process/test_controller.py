"""Kueue in a whole cluster: jobs wait for quota, are admitted, preempted and run again."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from actors import Context
from controlplane.api.request import Request
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import JOBS
from controlplane.kueue.api.installation import installation
from controlplane.kueue.api.webhook_configurations import HOST
from controlplane.kueue.config import load
from controlplane.kueue.loops.webhook import webhook_of
from controlplane.kueue.process.controller import kueue_of
from controlplane.kueue.process.kinds import KINDS
from controlplane.kueue.queues.visibility import GROUP, group
from tests.test_cluster import SECOND, cluster_with, run

EXAMPLE = Path(__file__).parents[3] / "examples" / "kueue" / "jobs.yaml"


def kueue_cluster(user, *, nodes: int = 2):
    return cluster_with(
        user,
        nodes=nodes,
        own_controllers=(kueue_of(load(None)),),
        webhook_servers={HOST: webhook_of(load(None))},
        installed=installation(load(None)),
        track_fields=True,
        enabled_controllers=("*",),
    )


def reasons(cluster) -> list[str]:
    return [obj.view.reason for obj in cluster.objects("/registry/events/")]


def example():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for tree in yaml.safe_load_all(EXAMPLE.read_text()):
            if tree["kind"] == "Job":
                await ctx.sleep(2 * SECOND)
            await client.create(KINDS[tree["kind"]], tree)
        await ctx.sleep(60 * SECOND)

    cluster = kueue_cluster(user)
    return cluster, run(cluster)


def workloads(cluster) -> dict[str, dict[str, str]]:
    """The status of each condition, by the workload's job."""
    found = {}
    for obj in cluster.objects("/registry/kueue.x-k8s.io/workloads/"):
        owner = obj.metadata["ownerReferences"][0]["name"]
        found[owner] = {each["type"]: each["status"] for each in obj.tree["status"]["conditions"]}
    return found


@pytest.mark.slow
def test_quota_that_was_borrowed_is_reclaimed_and_the_preempted_job_runs_later():
    cluster, result = example()
    assert {name: each["Finished"] for name, each in workloads(cluster).items()} == {
        "red-large": "True",
        "blue-small": "True",
    }
    assert {"CreatedWorkload", "QuotaReserved", "Admitted", "Preempted", "FinishedWorkload"} <= set(
        reasons(cluster)
    )
    assert example()[1].trace_hash == result.trace_hash


def test_the_webhook_suspends_jobs_and_refuses_what_is_not_valid():
    seen = {}

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(2 * SECOND)
        tree = next(
            each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each["kind"] == "Job"
        )
        made = await client.create(JOBS, tree)
        seen["suspend"] = made.tree["spec"]["suspend"]
        wrong = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ClusterQueue",
            "metadata": {"name": "alone"},
            "spec": {
                "resourceGroups": [
                    {
                        "coveredResources": ["cpu"],
                        "flavors": [
                            {
                                "name": "default",
                                "resources": [
                                    {"name": "cpu", "nominalQuota": "1", "borrowingLimit": "1"}
                                ],
                            }
                        ],
                    }
                ]
            },
        }
        try:
            await client.create(KINDS["ClusterQueue"], wrong)
        except ApiError as error:
            seen["refused"] = str(error)
        await ctx.sleep(5 * SECOND)

    run(kueue_cluster(user))
    assert seen["suspend"] is True
    assert "must be nil when cohort is empty" in seen["refused"]


def test_a_new_value_of_a_priority_class_reaches_its_workloads():
    seen = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(2 * SECOND)
        made = await client.create(
            KINDS["WorkloadPriorityClass"],
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": "high"},
                "value": 10,
            },
        )
        tree = next(
            each for each in yaml.safe_load_all(EXAMPLE.read_text()) if each["kind"] == "Job"
        )
        tree["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
        await client.create(JOBS, tree)
        for value in (10, 20):
            await client.update(KINDS["WorkloadPriorityClass"], {**made.tree, "value": value})
            await ctx.sleep(5 * SECOND)
            (found,) = (await client.list(KINDS["Workload"], "default")).items
            seen.append(found.tree["spec"]["priority"])

    run(kueue_cluster(user))
    assert seen == [10, 20]


@pytest.mark.parametrize("apiservers", [1, 2])
def test_the_server_passes_requests_for_pending_workloads_on_to_kueue(apiservers):
    found = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for tree in yaml.safe_load_all(EXAMPLE.read_text()):
            if tree["kind"] == "Job":
                tree = {**tree, "spec": {**tree["spec"], "parallelism": 9, "completions": 9}}
            await client.create(KINDS[tree["kind"]], tree)
        await ctx.sleep(5 * SECOND)
        for resource, namespace in (("clusterqueues", ""), ("localqueues", "default")):
            about = (resource, namespace, "red", "pendingworkloads")
            answer = (await client.call(Request("get", GROUP, "v1beta2", *about))).tree
            found.extend(each["metadata"]["ownerReferences"][0]["name"] for each in answer["items"])
        with pytest.raises(
            ApiError, match=r'clusterqueue.visibility.kueue.x-k8s.io "no" not found'
        ):
            about = ("clusterqueues", "", "no", "pendingworkloads")
            await client.call(Request("get", GROUP, "v1beta1", *about))

    cluster = cluster_with(
        user,
        nodes=2,
        apiservers=apiservers,
        own_controllers=(kueue_of(load(None), answers=True),),
        aggregated=(group("kueue"),),
        webhook_servers={HOST: webhook_of(load(None))},
        installed=installation(load(None)),
        track_fields=True,
        enabled_controllers=("*",),
    )
    run(cluster)
    assert found == ["red-large"] * 2


def test_without_an_answer_an_aggregated_group_is_unavailable():
    said = []

    async def silent(ctx: Context, _epoch_ns: int, *, server: object) -> None:
        while True:
            await ctx.recv(idle=True)

    async def user(ctx: Context) -> None:
        about = ("clusterqueues", "", "red", "pendingworkloads")
        try:
            await Client(ctx).call(Request("get", GROUP, "v1beta2", *about))
        except ApiError as error:
            said.append((error.code, error.message))

    answering = {"webhook_servers": {"silent": silent}, "aggregated": (group("webhook silent"),)}
    run(cluster_with(user, nodes=0, **answering))
    assert said == [(503, "the server is currently unable to handle the request")]
