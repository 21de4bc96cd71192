"""Claims and volumes in a world: bound, protected, released."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.client.resources import (
    CLAIMS,
    PODS,
    STORAGE_CLASSES,
    VOLUME_ATTRIBUTES_CLASSES,
    VOLUMES,
    Resource,
)
from tests.controllers.worlds import Small, workload

ALL = (
    "persistentvolume-binder",
    "persistentvolumeclaim-protection",
    "persistentvolume-protection",
)


def volume(name: str, size: str, storage_class: str = "slow", **spec: Any):
    return VOLUMES, {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "hostPath": {"path": f"/data/{name}"},
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            **spec,
        },
    }


def storage_class(mode: str = "Immediate", provisioner: str = "kubernetes.io/no-provisioner"):
    return STORAGE_CLASSES, {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "slow"},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    }


def claim(name: str, size: str, **spec: Any):
    asked = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "slow",
        **spec,
    }
    return workload(CLAIMS, "PersistentVolumeClaim", name, asked)


def user(name: str, claim_name: str):
    spec = {
        "containers": [{"name": "main", "image": "app:1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}],
        "terminationGracePeriodSeconds": 1,
    }
    return workload(PODS, "Pod", name, spec)


def delete(resource: Resource[Any], name: str):
    async def step(client, _ctx):
        namespace = "" if resource in (VOLUMES, VOLUME_ATTRIBUTES_CLASSES) else "default"
        await client.delete(resource, namespace, name)

    return step


def phases(small: Small, prefix: str) -> dict[str, str]:
    return {obj.name: obj.view.status.phase for obj in small.objects(prefix)}


@pytest.mark.parametrize("seed", range(4))
def test_a_claim_gets_the_smallest_volume_that_is_large_enough(seed):
    steps = (storage_class(), volume("big", "9Gi"), volume("fit", "3Gi"), volume("small", "1Gi"))
    small = Small(ALL, *steps, 2, claim("data", "2Gi"), strategy=RandomWalk(seed)).run()
    assert phases(small, "persistentvolumes") == {
        "big": "Available", "fit": "Bound", "small": "Available",
    }  # fmt: skip
    bound = small.one("persistentvolumeclaims")
    assert (bound.spec.volume_name, bound.status.phase) == ("fit", "Bound")


def test_two_claims_never_get_one_volume():
    steps = (storage_class(), volume("only", "3Gi"), 2, claim("one", "1Gi"), claim("two", "1Gi"))
    for seed in range(6):
        small = Small(ALL, *steps, strategy=RandomWalk(seed)).run()
        assert sorted(phases(small, "persistentvolumeclaims").values()) == ["Bound", "Pending"]


def test_a_claim_that_waits_for_its_consumer_is_bound_with_the_pod():
    steps = (storage_class("WaitForFirstConsumer"), volume("disk", "3Gi"), 2, claim("data", "1Gi"))
    small = Small(ALL, *steps, 3, user("web", "data")).run()
    assert small.reasons("PersistentVolumeClaim")[0] == "WaitForFirstConsumer"
    assert small.one("persistentvolumeclaims").status.phase == "Bound"
    assert small.one("pods").status.phase == "Running"


def test_a_used_claim_stays_until_its_pod_is_gone_and_its_volume_is_released_then():
    steps = (storage_class(), volume("disk", "3Gi"), 2, claim("data", "1Gi"), user("web", "data"))

    async def look(_client, _ctx):
        held.append([obj.name for obj in small.objects("persistentvolumeclaims")])

    held: list[list[str]] = []
    ends = (10, delete(CLAIMS, "data"), 10, look, delete(PODS, "web"), 10)
    small = Small(ALL, *steps, *ends)
    small.run()
    assert held == [["data"]]
    assert small.objects("persistentvolumeclaims") == []
    assert phases(small, "persistentvolumes") == {"disk": "Released"}


def test_a_bound_volume_that_is_deleted_waits_for_its_claim():
    steps = (storage_class(), volume("disk", "3Gi"), 2, claim("data", "1Gi"), 5)
    gone = (delete(VOLUMES, "disk"), 5, delete(CLAIMS, "data"))
    small = Small(ALL, *steps, *gone).run()
    assert small.objects("persistentvolumes") == []


@pytest.mark.parametrize("mode", ["Immediate", "WaitForFirstConsumer"])
def test_a_class_with_a_provisioner_has_volumes_made_and_deleted(mode):
    made = (storage_class(mode, "driver.example.com"), 2, claim("data", "1Gi"), user("web", "data"))
    small = Small((*ALL, "external-provisioner"), *made).run()
    assert small.one("persistentvolumes").status.phase == "Bound"
    assert small.one("pods").status.phase == "Running"
    gone = (10, delete(PODS, "web"), 5, delete(CLAIMS, "data"))
    small = Small((*ALL, "external-provisioner"), *made, *gone).run()
    assert small.objects("persistentvolumes") == []


def attributes(name: str):
    return VOLUME_ATTRIBUTES_CLASSES, {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttributesClass",
        "metadata": {"name": name},
        "driverName": "driver.example.com",
        "parameters": {"iops": "10"},
    }


@pytest.mark.parametrize("seed", range(3))
def test_a_class_of_attributes_stays_while_a_claim_or_a_volume_names_it(seed):
    held: list[list[str]] = []

    async def look(_client, _ctx):
        held.append([obj.name for obj in small.objects("volumeattributesclasses")])

    steps = (
        attributes("gold"),
        attributes("silver"),
        volume(
            "disk",
            "3Gi",
            volumeAttributesClassName="silver",
            csi={"driver": "d", "volumeHandle": "h"},
            hostPath=None,
        ),
        claim("data", "9Gi", volumeAttributesClassName="gold"),
        2,
        delete(VOLUME_ATTRIBUTES_CLASSES, "gold"),
        delete(VOLUME_ATTRIBUTES_CLASSES, "silver"),
        5,
        look,
        delete(CLAIMS, "data"),
        5,
        look,
        delete(VOLUMES, "disk"),
        5,
    )
    controllers = (*ALL, "volumeattributesclass-protection")
    small = Small(controllers, *steps, strategy=RandomWalk(seed))
    small.run()
    assert held == [["gold", "silver"], ["silver"]]
    assert small.objects("volumeattributesclasses") == []
