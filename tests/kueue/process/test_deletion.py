"""Deleted jobs, pods and apps leave no Workloads and no usage behind."""

from __future__ import annotations

import pytest
import yaml

from actors import Context
from controlplane.client.loops.clientset import Client
from controlplane.kueue.api.installation import installation
from controlplane.kueue.api.webhook_configurations import HOST
from controlplane.kueue.config import load
from controlplane.kueue.loops.webhook import webhook_of
from controlplane.kueue.process.controller import kueue_of
from controlplane.kueue.process.kinds import KINDS
from tests.kueue.process.test_examples import FOLDER
from tests.test_cluster import SECOND, cluster_with, run


def left_after_deletion(example: str, config: str, *kinds: str):
    """Names of the Workloads and queues that are left once the example's objects of these kinds are deleted."""
    seen = {}

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        trees = list(yaml.safe_load_all((FOLDER / example).read_text()))
        for tree in trees:
            await client.create(KINDS[tree["kind"]], tree)
        await ctx.sleep(10 * SECOND)
        seen["before"] = len((await client.list(KINDS["Workload"])).items)
        for tree in reversed(trees):
            if tree["kind"] in kinds:
                meta = tree["metadata"]
                where = (meta.get("namespace", ""), meta["name"])
                await client.delete(KINDS[tree["kind"]], *where, propagation_policy="Background")
        await ctx.sleep(120 * SECOND)
        for kind in ("Workload", "LocalQueue", "ClusterQueue", "ResourceFlavor"):
            found = (await client.list(KINDS[kind])).items
            seen[kind] = [each.tree["metadata"]["name"] for each in found]

    settings = FOLDER / config
    run(
        cluster_with(
            user,
            nodes=2,
            own_controllers=(kueue_of(load(settings)),),
            webhook_servers={HOST: webhook_of(load(settings))},
            installed=installation(load(settings)),
            track_fields=True,
            enabled_controllers=("*",),
        )
    )
    return seen


QUEUES = ("LocalQueue", "ClusterQueue", "ResourceFlavor")
NOTHING = {"Workload": [], "LocalQueue": [], "ClusterQueue": [], "ResourceFlavor": []}


@pytest.mark.slow
def test_jobs():
    seen = left_after_deletion("one-queue.yaml", "config.yaml", "Job", *QUEUES)
    assert seen == {"before": 3, **NOTHING}


def test_pods_alone_and_a_group_that_waits_for_others_in_their_place():
    seen = left_after_deletion("pods.yaml", "config.yaml", "Pod", *QUEUES)
    assert seen == {"before": 4, **NOTHING, "Workload": ["team"]}


@pytest.mark.slow
def test_deployments_and_stateful_sets():
    seen = left_after_deletion(
        "apps.yaml", "apps-config.yaml", "Deployment", "StatefulSet", *QUEUES
    )
    assert seen == {"before": 4, **NOTHING}


@pytest.mark.slow
def test_a_queue_in_use_stays():
    seen = left_after_deletion("apps.yaml", "apps-config.yaml", "ClusterQueue", "ResourceFlavor")
    assert seen["ClusterQueue"] == ["serving"]
    assert seen["ResourceFlavor"] == ["default"]
