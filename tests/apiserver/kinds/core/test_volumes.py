"""Rules of volumes that no recorded conversation reaches: each one against the words of upstream."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.pods.validation import validate_pod


def _pod(spec: Tree | None = None, container: Tree | None = None, **meta: Any) -> Tree:
    first = {
        "name": "c", "image": "i", "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always", **(container or {}),
    }  # fmt: skip
    return {
        "metadata": {"name": "p", **meta},
        "spec": {
            "containers": [first], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "s", "terminationGracePeriodSeconds": 30, **(spec or {}),
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"gcePersistentDisk": {}}, ["persistentDisk.pdName"]),
        ({"flocker": {}}, ["flocker"]),
        ({"flocker": {"datasetName": "a/b", "datasetUUID": "u"}}, ["flocker", "flocker.datasetName"]),
        ({"quobyte": {"registry": "no port", "volume": "v"}}, ["quobyte.registry"]),
        ({"quobyte": {"registry": "h:1", "volume": "v", "tenant": "t" * 65}}, ["quobyte.tenant"]),
        ({"storageos": {"volumeName": "A", "volumeNamespace": "B", "secretRef": {}}},
         ["storageos.volumeName", "storageos.volumeNamespace", "storageos.secretRef.name"]),
        ({"flexVolume": {"driver": "d", "options": {"a.k8s.io/x": "y", "b": "c"}}},
         ["flexVolume.options[a.k8s.io/x]"]),
        ({"azureDisk": {"diskName": "n", "diskURI": "u", "kind": "Managed", "cachingMode": "x"}},
         ["azureDisk.cachingMode", "azureDisk.diskURI"]),
        ({"cinder": {"volumeID": "v", "secretRef": {}}}, ["cinder.secretRef.name"]),
        ({"nfs": {"server": "s"}}, ["nfs.path", "nfs.path"]),
        ({"iscsi": {"targetPortal": "t" * 64, "iqn": "iqn.2020-01.a:b", "initiatorName": "x"}},
         ["iscsi.initiatorname", "name"]),
        ({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "A"}}}, ["csi.name"]),
        ({"secret": {"secretName": "s", "items": [{"key": "k", "path": "..a"}]}},
         ["secret.items[0].path"]),
        ({"emptyDir": {}, "cephfs": {}, "downwardAPI": {}}, ["downwarAPI", "cephFS"]),
        ({"projected": {"sources": [
            {"secret": {"name": "s", "items": [{"key": "k", "path": "a"}]},
             "configMap": {"name": "c", "items": [{"key": "k", "path": "a"}]}},
            {"serviceAccountToken": {"expirationSeconds": 3600}}]}},
         ["projected", "projected.sources[0]", "projected.path"]),
        ({"ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "n"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}},
         ["ephemeral.volumeClaimTemplate.metadata.name"]),
    ],
)  # fmt: skip
def test_a_volume_of_a_pod_is_asked_what_its_kind_needs(source: Tree, expected: list[str]) -> None:
    errors = validate_pod(_pod({"volumes": [{"name": "v", **source}]}))

    assert sorted(error.field for error in errors) == sorted(
        f"spec.volumes[0].{path}" for path in expected
    )


def test_a_claim_made_for_an_ephemeral_volume_is_not_mounted_besides() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"],
                         "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
    volumes = [
        {"name": "v", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "w", "persistentVolumeClaim": {"claimName": "p-v"}},
    ]

    errors = validate_pod(_pod({"volumes": volumes}))

    assert [error.field for error in errors] == ["spec.volumes[1].persistentVolumeClaim.claimName"]
