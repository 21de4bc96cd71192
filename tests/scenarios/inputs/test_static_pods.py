"""The folder of static pods that a KubeletConfiguration names."""

from __future__ import annotations

import pytest
import yaml

from controlplane.errors import UsageError
from controlplane.scenarios.engine.kubelets import equipped

CONFIG = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "staticPodPath": "manifests",
}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "etcd"},
    "spec": {
        "containers": [{"name": "main", "image": "etcd:1", "resources": {"limits": {"cpu": "1"}}}]
    },
}
NODE = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4", "memory": "4Gi"}}}


def settings(tmp_path):
    file = tmp_path / "kubelet.yaml"
    file.write_text(yaml.safe_dump(CONFIG))
    return equipped((NODE,), str(file), None, "1.36")[1]["n"]


def test_files_of_the_folder_are_defaulted_and_hidden_ones_are_passed_over(tmp_path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "etcd.yaml").write_text(yaml.safe_dump(POD))
    (tmp_path / "manifests" / ".swp").write_text("no pod")
    found = settings(tmp_path).manifests
    assert list(found) == ["etcd.yaml"]
    (container,) = found["etcd.yaml"]["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "1"}
    assert found["etcd.yaml"]["metadata"] == {"name": "etcd"}


def test_a_folder_that_is_not_there_is_refused_by_name(tmp_path) -> None:
    with pytest.raises(UsageError, match=r"staticPodPath: .*manifests: no such folder"):
        settings(tmp_path)


def test_a_file_that_is_no_pod_is_refused_by_name(tmp_path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "x.yaml").write_text("kind: Service\napiVersion: v1\n")
    with pytest.raises(UsageError, match=r"x\.yaml: a static pod is a v1 Pod, not v1 Service"):
        settings(tmp_path)
