"""Claims of pod groups, from the group to the node: one claim, made for the group, held by all its pods."""

from __future__ import annotations

from typing import Any

from actors import Context, EventLog
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.resources import (
    POD_GROUPS,
    RESOURCE_CLAIM_TEMPLATES,
    Resource,
)
from controlplane.cluster import Cluster, ClusterConfig, node_tree

GATES = dict.fromkeys(("GenericWorkload", "GangScheduling", "DRAWorkloadResourceClaims"), True)
KINDS: dict[str, Resource] = {
    "DeviceClass": Resource("resource.k8s.io", "v1", "deviceclasses"),
    "ResourceClaimTemplate": RESOURCE_CLAIM_TEMPLATES,
    "PodGroup": POD_GROUPS,
    "Pod": PODS,
}
SECOND = 1_000_000_000
DRIVER = "gpu.example.com"
ENTRY = {"name": "gpu", "resourceClaimTemplateName": "gpu"}


def objects() -> list[Any]:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [selector]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "group", "namespace": "default"},
            "spec": {
                "schedulingPolicy": {"gang": {"minCount": 2}},
                "resourceClaims": [ENTRY],
            },
        },
        *(pod(name) for name in ("a", "b")),
    ]


def pod(name: str) -> Any:
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulingGroup": {"podGroupName": "group"},
            "containers": [container],
            "resourceClaims": [ENTRY],
        },
    }


async def creates(ctx: Context) -> None:
    """Create all objects once the driver has published."""
    await ctx.sleep(5 * SECOND)
    client = Client(ctx)
    for tree in objects():
        await client.create(KINDS[tree["kind"]], tree)


def test_a_group_has_one_claim_which_all_its_pods_use() -> None:
    node = node_tree("node-1")
    node["metadata"]["annotations"] = {"emulate.controlplane/dra-devices": f"{DRIVER}=1"}
    config = ClusterConfig(nodes=[node], enabled_controllers=("*",), scheduler_features=GATES)
    cluster = Cluster(config, log=EventLog())
    cluster.user("user", creates)
    result = cluster.world.run("bare", until_ns=600 * SECOND)
    assert result.verdict in ("quiescent", "until"), result.reason
    pods = [each.tree for each in cluster.objects("/registry/pods/")]
    assert [each["spec"]["schedulingGroup"] for each in pods] == [{"podGroupName": "group"}] * 2
    assert [each["status"]["phase"] for each in pods] == ["Running"] * 2
    (claim,) = [each.tree for each in cluster.objects("/registry/resourceclaims/")]
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("PodGroup", "group")
    users = [(each["resource"], each["name"]) for each in claim["status"]["reservedFor"]]
    assert users == [("podgroups", "group")]
