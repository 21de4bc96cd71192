"""An applied configuration is of its type, or is told why not."""

import pytest

from controlplane.apiserver.requests.managed import checking
from controlplane.apiserver.requests.managed.checking import check_types
from controlplane.apiserver.schema.types import struct_type

POD = struct_type("io.k8s.api.core.v1.Pod")
CONTAINER = {"name": "c", "image": "i"}


def pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER], **spec}}


def container(**more):
    return pod(containers=[{**CONTAINER, **more}])


FITTING = [
    {},
    {"metadata": None, "spec": None},
    pod(),
    pod(containers=[None]) | {"spec": {"tolerations": [None, {}]}},
    container(ports=[{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}]),
    container(resources={"limits": {"cpu": 1, "memory": "1Gi", "x": None}}),
    container(env=[{"name": "A", "value": None}, {"name": "B"}]),
    pod(nodeSelector={"a": "b", "c": None}, hostNetwork=True, priority=1.5),
    {"metadata": {"finalizers": ["a", "b"], "labels": {}}},
]
UNFIT = {
    ".spec: expected map, got &{": [{"spec": []}],
    ".spec.x: field not declared in schema": [pod(x=1), pod(x=None)],
    ".spec.nodeSelector: expected map": [pod(nodeSelector=[])],
    ".spec.nodeSelector.a: expected string": [pod(nodeSelector={"a": 1})],
    ".spec.containers: expected list": [pod(containers={})],
    ".spec.containers: element 0: associative list with keys": [
        pod(containers=[None]),
        pod(containers=["a"]),
    ],
    '.spec.containers: duplicate entries for key [name="c"]': [pod(containers=[CONTAINER] * 2)],
    '.spec.containers[name="c"].env[name="A"].value: expected string': [
        container(env=[{"name": "A", "value": 1}]),
    ],
    '.spec.containers[name="c"].ports: duplicate entries for key [containerPort=1,protocol="TCP"]': [
        container(ports=[{"containerPort": 1}, {"containerPort": 1, "protocol": "TCP"}]),
    ],
    ".metadata.finalizers: element 0: associative list without keys": [
        {"metadata": {"finalizers": [None]}},
        {"metadata": {"finalizers": [{}]}},
    ],
    '.metadata.finalizers: duplicate entries for key [="a"]': [
        {"metadata": {"finalizers": ["a", "a"]}},
    ],
    ".spec.hostNetwork: expected boolean": [pod(hostNetwork=1)],
    ".spec.priority: expected numeric": [pod(priority=True)],
    '.spec.containers[name="c"].resources.limits.cpu: expected any scalar': [
        container(resources={"limits": {"cpu": {}}}),
    ],
}


@pytest.mark.parametrize("tree", FITTING)
def test_what_fits_has_no_problems(tree):
    assert check_types(tree, POD) == []


@pytest.mark.parametrize(
    ("problem", "tree"), [(text, tree) for text, trees in UNFIT.items() for tree in trees]
)
def test_what_does_not_fit_is_told_with_its_path(problem, tree):
    assert [text for text in check_types(tree, POD) if text.startswith(problem)]


def test_paths_are_made_only_to_tell_a_problem(monkeypatch):
    def walked(*_):
        raise AssertionError("walked with paths")

    monkeypatch.setattr(checking, "_check_struct", walked)
    for tree in FITTING:
        check_types(tree, POD)
