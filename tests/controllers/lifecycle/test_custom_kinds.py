"""Custom objects are collected and go with their namespace, though their kind came later."""

from __future__ import annotations

from controlplane.api.object import Object
from controlplane.client.resources import CONFIG_MAPS, NAMESPACES, Resource
from controlplane.controllers.lifecycle.custom_kinds import kinds_of
from tests.controllers.worlds import Small

DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
WIDGETS = Resource("example.com", "v1", "widgets")


def definition():
    return DEFINITIONS, {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }


def widget(namespace: str = "default"):
    metadata = {"name": "one", "namespace": namespace}
    return WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}


async def owned(client, _ctx):
    owner = await client.get(WIDGETS, "default", "one")
    reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "one", "uid": owner.uid}
    metadata = {"name": "owned", "namespace": "default", "ownerReferences": [reference]}
    await client.create(
        CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    )


def test_what_a_custom_object_owns_is_collected_after_it():
    async def delete(client, _ctx):
        await client.delete(WIDGETS, "default", "one")

    steps = (definition(), 2, widget(), owned, 5, delete)
    small = Small(("garbage-collector",), *steps).run()
    assert [obj.name for obj in small.objects("configmaps") if obj.name == "owned"] == []


def test_custom_objects_go_with_their_namespace():
    async def delete(client, _ctx):
        await client.delete(NAMESPACES, "", "shop")

    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    steps = (definition(), (NAMESPACES, shop), 2, widget("shop"), delete)
    small = Small(("namespace",), *steps).run()
    assert small.objects("example.com/widgets") == []
    assert not any(obj.name == "shop" for obj in small.objects("namespaces"))


def test_a_definition_that_goes_ends_its_informer():
    async def delete(client, _ctx):
        await client.delete(DEFINITIONS, "", "widgets.example.com")

    small = Small(("garbage-collector",), definition(), 2, widget(), 2, delete).run()
    assert small.objects("customresourcedefinitions") == []


def test_objects_are_followed_in_the_version_that_discovery_prefers():
    _, tree = definition()
    (version,) = tree["spec"]["versions"]
    names = ("v1beta1", "v1", "v2alpha1", "v1beta2")
    versions = [{**version, "name": name, "served": name != "v1"} for name in names]
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    found = kinds_of(
        Object({**tree, "spec": {**tree["spec"], "versions": versions}, "status": established})
    )
    assert [each.resource.version for each in found] == ["v1beta2", "v1beta1", "v2alpha1"]
