import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api import kinds, times
from controlplane.api.apps import Deployment, StatefulSet
from controlplane.api.core import Namespace, Node, Pod
from controlplane.api.decoding import json_name
from controlplane.api.object import Object
from controlplane.api.quantity import parse
from controlplane.api.view import GenericView, View

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "shop",
        "uid": "u1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:01Z",
        "labels": {"app": "web"},
        "unknown": 1,
    },
    "spec": {
        "nodeName": None,
        "priority": 0,
        "containers": [
            {"name": "c", "resources": {"requests": {"cpu": "100m"}}, "volumeMounts": None}
        ],
        "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d-web-0"}}],
    },
    "status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "hostIP": "10.1.0.1"},
}


def test_fields_read_by_their_python_names():
    pod = Pod.from_tree(POD)
    assert (pod.key, pod.uid, pod.resource_version, pod.kind) == ("shop/web-0", "u1", "7", "Pod")
    assert pod.labels == {"app": "web"}
    assert pod.spec.containers[0].resources.requests == {"cpu": parse("100m")}
    assert pod.spec.volumes[0].persistent_volume_claim.claim_name == "d-web-0"
    assert (pod.status.pod_ip, pod.status.host_ip) == ("10.0.0.1", "10.1.0.1")
    assert pod.metadata.creation_timestamp == 1767225601 * times.SECOND
    assert pod.tree is POD


def test_null_and_absent_read_alike_and_zero_differs_from_absent():
    pod = Pod.from_tree(POD)
    assert pod.spec.node_name == ""
    assert pod.spec.containers[0].volume_mounts == ()
    assert pod.spec.priority == 0
    empty = Pod.from_tree({})
    assert empty.spec.priority is None
    assert empty.metadata.labels == {}
    assert empty.spec.affinity is None
    assert empty.spec.containers == ()
    assert empty.key == ""


def test_templates_and_claim_templates_are_decoded_in_depth():
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    deployment = Deployment.from_tree({"spec": {"replicas": 0, "template": template}})
    assert deployment.spec.replicas == 0
    assert deployment.spec.template.spec.containers[0].name == "c"
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": ""}}
    stateful = StatefulSet.from_tree({"spec": {"volumeClaimTemplates": [claim]}})
    assert stateful.spec.volume_claim_templates[0].spec.storage_class_name == ""


def test_views_are_frozen_and_compare_by_identity():
    pod = Pod.from_tree(POD)
    with pytest.raises(AttributeError):
        pod.spec = None
    assert pod != Pod.from_tree(POD)
    assert pod.spec == Pod.from_tree(POD).spec
    assert len({pod, Pod.from_tree(POD)}) == 2


def test_the_class_is_found_by_version_and_kind():
    assert kinds.view_class("v1", "Pod") is Pod
    assert kinds.view_class("apps/v1", "Deployment") is Deployment
    assert kinds.view_class("v1", "Deployment") is GenericView
    assert kinds.view_class("v1", "View") is GenericView
    other = kinds.view({"apiVersion": "x/v1", "kind": "Cow", "spec": {"legs": 4}})
    assert (other.kind, other.api_version, other.spec) == ("Cow", "x/v1", {"legs": 4})


def test_every_view_class_decodes_an_empty_object():
    kinds.view_class("v1", "Pod")
    todo = [View]
    seen = 0
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        if cls.KIND:
            assert cls.from_tree({}).kind == cls.KIND
            seen += 1
    assert seen > 10


@pytest.mark.parametrize(
    ("python", "json_text"),
    [
        ("node_name", "nodeName"),
        ("pod_ips", "podIPs"),
        ("pod_cidr", "podCIDR"),
        ("gce_persistent_disk", "gcePersistentDisk"),
        ("downward_api", "downwardAPI"),
        ("volume_id", "volumeID"),
    ],
)
def test_names_translate_both_plainly_and_irregularly(python, json_text):
    assert json_name(python) == json_text


def test_a_stored_object_computes_view_and_bytes_once():
    stored = Object(POD)
    assert stored.view is stored.view
    assert stored.json is stored.json
    assert json.loads(stored.json) == POD
    assert (stored.key, stored.kind, stored.uid, stored.resource_version) == (
        "shop/web-0",
        "Pod",
        "u1",
        7,
    )
    assert isinstance(Object({"apiVersion": "v1", "kind": "Node"}).view, Node)
    assert Object({}).resource_version == 0


def test_list_items_without_a_kind_take_it_from_the_class():
    assert Namespace.from_tree({"metadata": {"name": "a"}}).kind == "Namespace"


@given(st.integers(0, 4 * 10**18))
def test_times_survive_printing_at_their_resolution(ns):
    assert times.parse_time(times.format_time(ns)) == ns // times.SECOND * times.SECOND
    assert times.parse_time(times.format_micro_time(ns)) == ns // 1000 * 1000


def test_times_carry_offsets_and_fractions():
    assert times.parse_time("2026-01-01T01:00:00.5+01:00") == 1767225600500000000
    assert times.format_micro_time(1767225600500000000) == "2026-01-01T00:00:00.500000Z"
    for text in ("2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T25:00:00Z", ""):
        with pytest.raises(ValueError, match="RFC 3339"):
            times.parse_time(text)
