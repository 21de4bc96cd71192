"""Permitted changes of pods and rules of their status."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.core.pods.updates import (
    validate_ephemeral_update,
    validate_pod_status_update,
    validate_pod_update,
)
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
         ["status.hostIPs"]),
        ({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]},
         ["status.podIPs"]),
        ({"resourceClaimStatuses": [{"name": "x"}]}, ["status.resourceClaimStatuses[0].name"]),
        ({"conditions": [{"type": "a b"}]}, ["status.conditions[0].Type"]),
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
