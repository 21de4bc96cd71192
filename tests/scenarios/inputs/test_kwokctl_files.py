"""Templates and recordings of kwokctl become objects, and changes at their times."""

from __future__ import annotations

import json

import pytest
import yaml

from controlplane.errors import UsageError
from controlplane.scenarios.inputs import reading

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "fake", "annotations": {"kwok.x-k8s.io/node": "fake"}},
    "status": {"allocatable": {"cpu": "4"}},
}
TEMPLATE = """
kind: Node
apiVersion: v1
metadata:
  name: {{ Name }}
  labels: {pool: {{ .pool }}}
spec:
  podCIDR: {{ AddCIDR "10.0.0.0/24" Index }}
status:
  addresses: [{type: InternalIP, address: {{ AddIP "192.0.2.1" Index | Quote }}}]
"""


def template(text=TEMPLATE, replicas="3", **more):
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlResource",
        "metadata": {"name": "node", "annotations": {"emulate.controlplane/replicas": replicas}},
        "parameters": {"pool": "a"},
        "template": text,
        **more,
    }


def patch(method, at, resource="configmaps", name="c", namespace="default", **more):
    return {
        "apiVersion": "action.kwok.x-k8s.io/v1alpha1",
        "kind": "ResourcePatch",
        "resource": {"version": "v1", "resource": resource},
        "target": {"name": name, "namespace": namespace},
        "durationNanosecond": at,
        "method": method,
        **more,
    }


def load(tmp_path, *documents):
    path = tmp_path / "world.yaml"
    path.write_text("---\n".join(map(yaml.safe_dump, documents)))
    return reading.load([str(path)])


def config_map(**data):
    meta = {"name": "c", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def test_a_template_becomes_numbered_objects(tmp_path):
    nodes = load(tmp_path, template()).nodes
    assert [node["metadata"]["name"] for node in nodes] == [f"node-00000{n}" for n in range(3)]
    last = nodes[-1]
    assert last["metadata"]["labels"] == {"pool": "a", "kwok.x-k8s.io/kwokctl-scale": "node"}
    assert last["spec"]["podCIDR"] == "10.0.2.0/24"
    assert last["status"]["addresses"][0]["address"] == "192.0.2.3"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (template(replicas=""), "replicas]: '': expected a number from 1 to 1000000"),
        (template(replicas="many"), "replicas]: 'many': expected a number from 1 to 1000000"),
        (template(""), "template: expected a text"),
        (template("{{ nope }}"), "template: build template: "),
        (template("kind: Node"), "template: expected an object with apiVersion and kind"),
        (template(parameters=[1]), "parameters: expected an object"),
    ],
)
def test_a_mistake_in_a_template_is_told_with_its_place(tmp_path, given, told):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, given)
    assert "world.yaml:" in str(caught.value)
    assert told in str(caught.value)


def test_a_recording_repeats_its_changes_at_their_times(tmp_path):
    created = {**config_map(a="1"), "metadata": {"name": "d", "namespace": "default"}}
    found = load(
        tmp_path,
        NODE,
        config_map(a="1", b="2"),
        patch("patch", 1_500_000_000, template={"data": {"a": "3"}}),
        patch("create", 2_000_000_000, name="d", template=created),
        patch("delete", 3_000_000_000),
    )
    assert [node["metadata"]["name"] for node in found.nodes] == ["fake"]
    told = [(each.at_ns, each.verb, each.tree["metadata"]["name"]) for each in found.submissions]
    assert told == [
        (0, "create", "c"),
        (1_500_000_000, "update", "c"),
        (2_000_000_000, "create", "d"),
        (3_000_000_000, "delete", "c"),
    ]
    assert found.submissions[1].tree["data"] == {"a": "3", "b": "2"}


def test_lists_are_merged_by_their_keys(tmp_path):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]},
    }
    image = {"spec": {"containers": [{"name": "b", "image": "w"}]}}
    found = load(tmp_path, pod, patch("patch", 5, "pods", "p", template=image))
    containers = found.submissions[-1].tree["spec"]["containers"]
    assert {each["name"]: each["image"] for each in containers} == {"a": "x", "b": "w"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (patch("patch", 1, name="x", template={}), "target: no configmaps default/x before"),
        (patch("drop", 1), "method: 'drop': expected create, patch or delete"),
        (patch("delete", -1), "durationNanosecond: -1: expected nanoseconds"),
        (patch("create", 1), "template: expected an object"),
        (patch("patch", 1, template=[]), "template: expected an object"),
    ],
)
def test_a_mistake_in_a_recording_is_told_with_its_place(tmp_path, given, told):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, config_map(a="1"), given)
    assert "world.yaml:" in str(caught.value)
    assert told in str(caught.value)


def test_a_recording_may_be_json(tmp_path):
    path = tmp_path / "world.json"
    documents = [config_map(a="1"), patch("delete", 7)]
    path.write_text("\n".join(json.dumps(each) for each in documents))
    assert [each.verb for each in reading.load([str(path)]).submissions] == ["create", "delete"]
