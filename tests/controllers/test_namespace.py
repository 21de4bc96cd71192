"""Deletion of namespaces in a world."""

from __future__ import annotations

import pytest

from actors import RandomWalk
from controlplane.client.resources import CONFIG_MAPS, NAMESPACES, PODS
from tests.controllers.worlds import Small

NAMESPACE = (NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})


def config(name: str, **metadata):
    tree = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", **metadata},
    }
    return CONFIG_MAPS, tree


def pod(name: str):
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "containers": [{"name": "main", "image": "app:1"}],
            "terminationGracePeriodSeconds": 2,
        },
    }
    return PODS, tree


async def delete(client, _ctx):
    await client.delete(NAMESPACES, "", "shop")


@pytest.mark.parametrize("seed", range(4))
def test_a_namespace_goes_with_everything_in_it(seed):
    steps = (NAMESPACE, config("one"), pod("web"), 20, delete)
    small = Small(("namespace",), *steps, strategy=RandomWalk(seed)).run()
    assert [obj.name for obj in small.objects("namespaces") if obj.name == "shop"] == []
    assert [obj.key for obj in small.objects("configmaps") if obj.namespace == "shop"] == []
    assert small.objects("pods") == []


def test_what_a_finalizer_holds_is_said_and_waited_for():
    async def release(client, _ctx):
        shop = next(obj for obj in small.objects("namespaces") if obj.name == "shop")
        said.update({each.type: each.message for each in shop.view.status.conditions})
        patch = {"metadata": {"finalizers": None}}
        kind = "application/merge-patch+json"
        await client.patch(CONFIG_MAPS, "shop", "held", patch, kind=kind)

    said: dict[str, str] = {}
    held = config("held", finalizers=["example.com/x"])
    small = Small(("namespace",), NAMESPACE, held, 1, delete, 8, release)
    small.run()
    assert "configmaps. has 1 resource instances" in said["NamespaceContentRemaining"]
    assert "example.com/x in 1 resource" in said["NamespaceFinalizersRemaining"]
    assert not any(obj.name == "shop" for obj in small.objects("namespaces"))
