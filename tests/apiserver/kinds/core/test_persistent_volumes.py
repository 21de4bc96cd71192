"""Rules of persistent volumes that no recorded conversation reaches."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.persistent_volumes import (
    validate_volume,
    validate_volume_update,
    volume_warnings,
)


def _volume(**spec: Any) -> Tree:
    return {
        "metadata": {"name": "v"},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}},
         ["glusterfs.endpointsNamespace"]),
        ({"cinder": {"volumeID": "v", "secretRef": {"name": "n"}}}, ["cinder.secretRef.namespace"]),
        ({"azureFile": {"secretName": "s", "shareName": "n", "secretNamespace": ""}},
         ["azureFile.secretNamespace"]),
        ({"csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "A"}}},
         ["csi.nodePublishSecretRef.name", "csi.nodePublishSecretRef.namespace"]),
        ({"cephfs": {"monitors": ["m"]}, "csi": {}, "hostPath": {"path": "/x"}}, ["cephFS", "csi"]),
        ({"local": {"path": "/x"}, "csi": {}}, ["nodeAffinity", "csi"]),
        ({"hostPath": {"path": "/x/.."}, "persistentVolumeReclaimPolicy": "Recycle"},
         ["hostPath.path", "persistentVolumeReclaimPolicy"]),
    ],
)  # fmt: skip
def test_a_persistent_volume_is_asked_what_its_kind_needs(spec: Tree, expected: list[str]) -> None:
    errors = validate_volume(_volume(**spec))

    assert [error.field for error in errors] == [f"spec.{path}" for path in expected]


def test_a_volume_gets_its_secret_for_expansion_once_and_keeps_its_class() -> None:
    csi = {"driver": "d", "volumeHandle": "h"}
    old = _volume(csi=csi, volumeAttributesClassName="a")
    ref = {"name": "n", "namespace": "m"}
    new = _volume(csi={**csi, "controllerExpandSecretRef": ref})

    errors = validate_volume_update(new, old)

    assert [error.field for error in errors] == ["spec.volumeAttributesClassName"]


def test_a_doubtful_volume_is_warned_of() -> None:
    annotations = {"volume.beta.kubernetes.io/storage-class": "a"}
    spec = {"persistentVolumeReclaimPolicy": "Retain", "glusterfs": {}}

    assert volume_warnings({"metadata": {"annotations": annotations}, "spec": spec}) == [
        "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; "
        'use "storageClassName" attribute instead',
        "spec.glusterfs: deprecated in v1.25, non-functional in v1.26+",
    ]
