"""Rules of pods that no recorded conversation reaches: each one against the words of upstream."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.pods.validation import validate_pod, validate_template


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
