"""lightkube."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

lightkube = pytest.importorskip("lightkube")

from lightkube import Client, KubeConfig  # noqa: E402
from lightkube.core.exceptions import ApiError  # noqa: E402
from lightkube.generic_resource import create_namespaced_resource  # noqa: E402
from lightkube.models.meta_v1 import ObjectMeta  # noqa: E402
from lightkube.resources.apps_v1 import Deployment  # noqa: E402
from lightkube.resources.coordination_v1 import Lease  # noqa: E402
from lightkube.resources.core_v1 import ConfigMap, Namespace, Pod  # noqa: E402
from lightkube.types import CascadeType, PatchType  # noqa: E402


@pytest.fixture(scope="module")
def api(kubeconfig: Path) -> Iterator[Any]:
    made = Client(config=KubeConfig.from_file(kubeconfig), field_manager="lightkube-tests")
    yield made
    made._client._client.close()


def config_map(namespace: str, name: str, **data: str) -> Any:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


def deployment(namespace: str, name: str, replicas: int) -> Any:
    return Deployment.from_dict(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        }
    )


def test_life_of_an_object(api: Any, namespace: str) -> None:
    made = api.create(config_map(namespace, "c", k="1"))
    assert api.get(ConfigMap, "c", namespace=namespace).data == {"k": "1"}
    names = {item.metadata.name for item in api.list(ConfigMap, namespace=namespace)}
    assert names - {"kube-root-ca.crt"} == {"c"}
    made.data = {"k": "2"}
    assert api.replace(made).data == {"k": "2"}
    with pytest.raises(ApiError) as conflict:
        api.replace(made)
    assert conflict.value.status.code == 409
    api.delete(ConfigMap, "c", namespace=namespace)
    with pytest.raises(ApiError) as missing:
        api.get(ConfigMap, "c", namespace=namespace)
    assert missing.value.status.reason == "NotFound"


def test_kinds_of_patches(api: Any, namespace: str) -> None:
    api.create(config_map(namespace, "c", a="1", b="1"))

    def patch(body: Any, kind: PatchType) -> dict[str, str]:
        return dict(api.patch(ConfigMap, "c", body, namespace=namespace, patch_type=kind).data)

    assert patch({"data": {"a": "2"}}, PatchType.STRATEGIC)["a"] == "2"
    assert "b" not in patch({"data": {"b": None}}, PatchType.MERGE)
    assert patch([{"op": "add", "path": "/data/c", "value": "3"}], PatchType.JSON)["c"] == "3"
    applied = api.apply(config_map(namespace, "c", c="4"), force=True)
    assert applied.data["c"] == "4"
    assert any(entry.operation == "Apply" for entry in applied.metadata.managedFields)


def test_a_deployment_becomes_available_scales_and_goes(api: Any, namespace: str) -> None:
    api.create(deployment(namespace, "web", 2))
    api.wait(Deployment, "web", for_conditions=["Available"], namespace=namespace)
    scale = api.get(Deployment.Scale, "web", namespace=namespace)
    scale.spec.replicas = 1
    api.replace(scale, "web", namespace=namespace)
    for _, seen in api.watch(Deployment, namespace=namespace, fields={"metadata.name": "web"}):
        if seen.status.observedGeneration == 2 and seen.status.replicas == 1:
            break
    api.delete(Deployment, "web", namespace=namespace, cascade=CascadeType.BACKGROUND)


def test_logs_of_a_running_pod(api: Any, namespace: str) -> None:
    api.create(deployment(namespace, "web", 1))
    for _, seen in api.watch(Pod, namespace=namespace, labels={"app": "web"}):
        if seen.status.phase == "Running":
            break
    assert list(api.log(seen.metadata.name, namespace=namespace)) == ["container c started\n"]


def test_a_lease_is_taken_over_by_version(api: Any, namespace: str) -> None:
    lease = api.create(
        Lease.from_dict(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "l", "namespace": namespace},
                "spec": {
                    "holderIdentity": "one",
                    "leaseDurationSeconds": 15,
                    "renewTime": "2026-01-01T00:00:00.000001Z",
                },
            }
        )
    )
    other = api.get(Lease, "l", namespace=namespace)
    other.spec.holderIdentity = "two"
    assert api.replace(other).spec.holderIdentity == "two"
    lease.spec.holderIdentity = "three"
    with pytest.raises(ApiError) as conflict:
        api.replace(lease)
    assert conflict.value.status.code == 409


def test_generic_resources_for_a_definition(api: Any, namespace: str) -> None:
    from lightkube.models.apiextensions_v1 import CustomResourceDefinitionSpec
    from lightkube.resources.apiextensions_v1 import CustomResourceDefinition

    spec = CustomResourceDefinitionSpec.from_dict(
        {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget"},
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
        }
    )
    api.create(CustomResourceDefinition(metadata=ObjectMeta(name="gadgets.example.org"), spec=spec))
    api.wait(CustomResourceDefinition, "gadgets.example.org", for_conditions=["Established"])
    gadget = create_namespaced_resource("example.org", "v1", "Gadget", "gadgets")
    api.create(gadget(metadata={"name": "g", "namespace": namespace}, size=3))
    assert api.get(gadget, "g", namespace=namespace)["size"] == 3


def test_namespaces_are_there(api: Any) -> None:
    assert api.get(Namespace, "kube-system").status.phase == "Active"
