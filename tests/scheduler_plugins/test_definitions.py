"""The custom kinds of scheduler-plugins as the API server takes them."""

from __future__ import annotations

import pytest

from actors import Context
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import Resource
from controlplane.scheduler_plugins.definitions import definitions
from tests.scheduler_plugins.worlds import POD_GROUPS, group, world
from tests.test_cluster import SECOND, run


def test_the_server_accepts_and_serves_each_of_them():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(SECOND)
        for tree in definitions():
            spec = tree["spec"]
            resource = Resource(spec["group"], spec["versions"][0]["name"], spec["names"]["plural"])
            served.append(spec["names"]["kind"])
            assert (await client.list(resource)).items == []

    served: list[str] = []
    cluster = world(user, {})
    run(cluster)
    assert served == [
        "PodGroup",
        "ElasticQuota",
        "NodeResourceTopology",
        "AppGroup",
        "NetworkTopology",
        "SeccompProfile",
    ]
    for obj in cluster.objects("/registry/apiextensions.k8s.io/customresourcedefinitions/"):
        conditions = {each["type"]: each["status"] for each in obj.tree["status"]["conditions"]}
        assert conditions.get("NonStructuralSchema") is None
        assert conditions["Established"] == "True"
        assert conditions.get("KubernetesAPIApprovalPolicyConformant", "True") == "True"


def test_a_group_needs_one_pod_at_least():
    async def user(ctx: Context) -> None:
        await ctx.sleep(SECOND)
        with pytest.raises(ApiError) as refused:
            await Client(ctx).create(POD_GROUPS, group("red", 0))
        told.append(str(refused.value))

    told: list[str] = []
    run(world(user, {}))
    assert "spec.minMember in body should be greater than or equal to 1" in told[0]
