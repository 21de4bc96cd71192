"""Rules of the core group that no recorded conversation reaches: each one against upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.validation.claims import validate_claim_update
from controlplane.apiserver.kinds.validation.persistent_volumes import (
    validate_volume,
    validate_volume_update,
)
from controlplane.apiserver.kinds.validation.pod_updates import (
    validate_ephemeral_update,
    validate_pod_status_update,
    validate_pod_update,
)
from controlplane.apiserver.kinds.validation.pods import validate_pod, validate_template


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


@pytest.mark.parametrize(
    ("spec", "container", "expected"),
    [
        ({"os": {"name": "windows"}, "hostUsers": True, "shareProcessNamespace": False},
         {"securityContext": {"privileged": False}},
         ["hostUsers", "shareProcessNamespace", "containers[0].securityContext.privileged"]),
        ({"os": {}}, {}, ["os.name"]),
        ({"hostNetwork": True}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]},
         ["containers[0].ports[0].hostPort"]),
        ({"hostUsers": False, "hostPID": True, "hostIPC": True}, {}, ["HostPID", "HostIPC"]),
        ({"hostIPC": True, "securityContext": {"sysctls": [{"name": "kernel/sem", "value": "1"}]}},
         {}, ["securityContext.sysctls[0].name"]),
        ({"securityContext": {"seccompProfile": {"localhostProfile": "x"}}}, {},
         ["securityContext.seccompProfile.type", "securityContext.seccompProfile.localhostProfile"]),
        ({"securityContext": {"windowsOptions": {"gmsaCredentialSpecName": "A"}}}, {},
         ["securityContext.windowsOptions.gmsaCredentialSpecName"]),
        ({"hostPID": True, "shareProcessNamespace": True, "securityContext": {}}, {},
         ["securityContext.shareProcessNamespace"]),
        ({"dnsPolicy": "None", "dnsConfig": {"searches": ["A b"]}}, {}, ["dnsConfig.nameservers"]),
        ({"dnsConfig": {"searches": ["", "."]}}, {}, ["dnsConfig.searches[0]"]),
        ({}, {"envFrom": [{"secretRef": {"name": "a-"}}]}, []),
        ({}, {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {
            "resource": "limits.cpu", "divisor": "3"}}}]},
         ["containers[0].env[0].valueFrom.resourceFieldRef.divisor"]),
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
         {"volumeMounts": [{"name": "v", "mountPath": "/a"}],
          "volumeDevices": [{"name": "v", "devicePath": "/a"}]},
         ["containers[0].volumeMounts[0].name", "containers[0].volumeMounts[0].mountPath",
          "containers[0].volumeDevices[0].name", "containers[0].volumeDevices[0].devicePath"]),
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [
                {"key": "k", "operator": "In", "values": ["not a label"]}]}}]}}}, {}, []),
    ],
)  # fmt: skip
def test_a_pod_is_asked_what_upstream_asks(
    spec: Tree, container: Tree, expected: list[str]
) -> None:
    errors = validate_pod(_pod(spec, container))

    assert [error.field for error in errors] == [f"spec.{path}" for path in expected]


def test_a_template_leaves_ports_of_the_host_to_its_pods() -> None:
    pod = _pod({"hostNetwork": True}, {"ports": [{"containerPort": 80, "protocol": "TCP"}]})

    assert validate_template({"spec": pod["spec"]}, "template") == []


def test_a_label_taken_from_the_pod_is_not_selected_besides() -> None:
    term = {"topologyKey": "z", "matchLabelKeys": ["a"],
            "labelSelector": {"matchLabels": {"a": "b"},
                              "matchExpressions": [{"key": "a", "operator": "Exists"}]}}  # fmt: skip
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    errors = validate_pod(_pod({"affinity": affinity}))

    place = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0][0]"
    assert [error.field for error in errors] == [place]


def test_annotations_of_pods_are_looked_at_when_they_are_made_and_when_they_change() -> None:
    cost, mirror = "controller.kubernetes.io/pod-deletion-cost", "kubernetes.io/config.mirror"
    seccomp = "seccomp.security.alpha.kubernetes.io/pod"
    profile = {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}
    old = _pod(annotations={mirror: "a"})
    bad = _pod(profile, annotations={cost: "05", seccomp: "runtime/default"})
    old["spec"] = bad["spec"]

    assert [error.field for error in validate_pod(bad)] == [
        f"metadata.annotations[{cost}]", "spec.securityContext.seccompProfile.type",
    ]  # fmt: skip
    assert [error.field for error in validate_pod_update(bad, old)] == [
        f"metadata.annotations[{cost}]", f"metadata.annotations[{mirror}]",
        f"metadata.annotations[{cost}]",
    ]  # fmt: skip
    assert [error.field for error in validate_ephemeral_update(bad, old)] == ["[]"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]}, ["status.hostIPs[0].ip"]),
        ({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]},
         ["status.hostIPs[1]", "status.hostIPs"]),
        ({"resourceClaimStatuses": [{"name": "x"}]}, ["status.resourceClaimStatuses[0].name"]),
        ({"conditions": [{"type": "a b"}]}, ["metadata.conditions[0].Type"]),
        ({"containerStatuses": [{"name": "c", "user": {"linux": {"uid": -1}}}]},
         ["status.containerStatuses[0].linux.uid"]),
        ({"containerStatuses": [{"name": "c", "allocatedResourcesStatus": [
            {"name": "n", "resources": [{"resourceID": "r", "health": "x"}]}]}]},
         ["status.containerStatuses[0].allocatedResourcesStatus[0].name",
          "status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health"]),
        ({"ephemeralContainerStatuses": [{"name": "e", "allocatedResourcesStatus": [{}]}]},
         ["status.ephemeralContainerStatuses[0].allocatedResourcesStatus"]),
    ],
)  # fmt: skip
def test_the_status_of_a_pod_is_asked_what_upstream_asks(status: Tree, expected: list[str]) -> None:
    old = {**_pod(), "status": {}}

    errors = validate_pod_status_update({**old, "status": status}, old)

    assert [error.field for error in errors] == expected


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


def test_a_claim_keeps_having_a_class_of_attributes() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    old = {"metadata": {"name": "c"}, "spec": {**spec, "volumeAttributesClassName": "a"},
           "status": {"phase": "Bound"}}  # fmt: skip
    new = {**old, "spec": {**spec, "volumeAttributesClassName": ""}}

    errors = validate_claim_update(new, old)

    assert [error.field for error in errors] == ["spec.volumeAttributesClassName"]
