"""Volumes for claims: copies of others, places where they may be, and secrets that classes name."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from controlplane.client.resources import CLAIMS, PODS, SECRETS, STORAGE_CLASSES
from controlplane.controllers.loops.storage import CsiDriver, Storage
from controlplane.controllers.storage.csi.faults import Fault
from controlplane.controllers.storage.csi.hostpath import DriverOptions
from controlplane.controllers.storage.volume.binder import PROVISIONERS
from controlplane.controllers.storage.volume.topology import (
    TopologyError,
    flattened,
    node_affinity,
    requirement,
    spread,
)
from controlplane.scenarios.churns import storage_world as storage
from tests.controllers.worlds import Small

DRIVER = "hostpath.csi.k8s.io"
KEY = "topology.hostpath.csi/node"


def storage_class(mode: str = "Immediate", **more: Any) -> Any:
    return STORAGE_CLASSES, {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": DRIVER,
        "volumeBindingMode": mode,
        **more,
    }


def claim(name: str, source: str = "", size: str = "1Gi", **more: Any) -> Any:
    spec: dict[str, Any] = {
        "storageClassName": "fast",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        **more,
    }
    if source:
        spec["dataSource"] = {"kind": "PersistentVolumeClaim", "name": source}
    metadata = {"name": name, "namespace": "default"}
    return CLAIMS, {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
    }


def pod(name: str, claimed: str, **spec: Any) -> Any:
    mount = {"name": "disk", "mountPath": "/data"}
    return PODS, {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "app:1", "volumeMounts": [mount]}],
            "volumes": [{"name": "disk", "persistentVolumeClaim": {"claimName": claimed}}],
            **spec,
        },
    }


def world(*steps: Any, faults: tuple[Fault, ...] = (), **options: Any) -> Small:
    driver = CsiDriver(DriverOptions(attaches=True, **options), faults=faults, attach_required=True)
    return Small(("*",), *steps, store=storage.store(), storage=Storage([driver]))


def disk(small: Small) -> Any:
    return small.cluster.csi_drivers[DRIVER].driver


def calls(small: Small, method: str) -> list[Any]:
    seen = small.cluster.csi_drivers[DRIVER].calls
    return [each.fields for each in seen if each.method == method]


def failures(small: Small) -> list[str]:
    events = small.objects("events")
    return [each.tree["message"] for each in events if each.view.reason == "ProvisioningFailed"]


def by_name(small: Small, prefix: str, name: str) -> Any:
    return next(each.tree for each in small.objects(prefix) if each.name == name)


@pytest.mark.parametrize("drivers", [True, False])
def test_a_claim_that_is_heard_of_before_its_class_gets_a_volume(drivers):
    resource, tree = claim("data")
    notes = dict.fromkeys(PROVISIONERS, DRIVER)
    handed_over = {**tree, "metadata": {**tree["metadata"], "annotations": notes}}
    steps = ((resource, handed_over), 5, storage_class(), 30)
    small = world(*steps) if drivers else Small(("*",), *steps)
    small.run()
    (stored,) = small.objects("persistentvolumeclaims")
    assert stored.tree["status"]["phase"] == "Bound"


# ---------------------------------------------------------------------- clones


def test_a_copy_holds_what_its_source_holds_and_the_source_stays_until_then():
    async def write(_client: Any, _ctx: Any) -> None:
        (volume,) = disk(small).volumes
        disk(small).write(volume, "kept")

    async def remove(client: Any, _ctx: Any) -> None:
        await client.delete(CLAIMS, "default", "data")

    small = world(storage_class(), claim("data"), 5, write, claim("copy", "data"), 5, remove, 10)
    small.run()
    first, copy = calls(small, "CreateVolume")
    assert "volume_content_source" not in first
    source = copy["volume_content_source"]["volume"]["volume_id"]
    (made,) = disk(small).volumes.values()
    assert (made.copied, made.writes) == (source, ("kept",))
    assert [each.name for each in small.objects("persistentvolumeclaims")] == ["copy"]


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (claim("copy", "gone"), 'PVC gone (namespace "default") from api server'),
        (claim("copy", "data", "1Mi"), "requested 1048576 but source is 1073741824"),
        (claim("copy", "data", volumeMode="Block"), "Source is Filesystem, but new PVC requested"),
    ],
)
def test_what_cannot_be_copied_is_told_in_upstreams_words(copy, said):
    small = world(storage_class(), claim("data"), 5, copy, 5)
    small.cluster.world.run("bare", until_ns=20_000_000_000)
    told = failures(small)
    assert told
    start = "error getting handle for DataSource Type PersistentVolumeClaim by Name "
    assert all(each.startswith(start) and said in each for each in told)
    assert len(disk(small).volumes) == 1


# ---------------------------------------------------------------------- places


def test_a_volume_is_made_where_its_pod_is_and_keeps_it_there():
    small = world(
        storage_class("WaitForFirstConsumer"),
        1,
        claim("data"),
        pod("web", "data", nodeSelector={"kubernetes.io/hostname": "node-2"}),
        30,
        topology=True,
    ).run()
    (asked,) = calls(small, "CreateVolume")
    places = asked["accessibility_requirements"]
    assert places["preferred"][0] == {"segments": {KEY: "node-2"}}
    assert len(places["requisite"]) == 2
    (volume,) = small.objects("persistentvolumes")
    expression = {"key": KEY, "operator": "In", "values": ["node-2"]}
    terms = volume.tree["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [expression]}]
    assert small.one("pods").status.phase == "Running"
    node = by_name(small, "minions", "node-1")
    assert node["metadata"]["labels"][KEY] == "node-1"
    assert by_name(small, "csinodes", "node-1")["spec"]["drivers"][0]["topologyKeys"] == [KEY]


def test_where_there_is_no_room_the_scheduler_chooses_again():
    fault = Fault("CreateVolume", count=1, code="ResourceExhausted", message="full")
    small = world(
        storage_class("WaitForFirstConsumer"),
        1,
        claim("data"),
        pod("web", "data"),
        60,
        faults=(fault,),
        topology=True,
    ).run()
    assert failures(small) == ["rpc error: code = ResourceExhausted desc = full"]
    assert small.one("pods").status.phase == "Running"
    written = [
        event.data["by"]
        for event in small.log
        if event.event == "apiserver.write"
        and event.obj == "PersistentVolumeClaim/default/data"
        and event.data["verb"] == "update persistentvolumeclaims"
    ]
    assert "csi-provisioner" in written
    assert written.count("scheduler") == 2


NODES = {
    name: {"spec": {"drivers": [{"name": "d", "topologyKeys": ["rack", "zone"]}]}}
    for name in ("a", "b", "c")
}
LABELS = {
    "a": {"zone": "z1", "rack": "r1"},
    "b": {"zone": "z1", "rack": "r2"},
    "c": {"zone": "z2", "rack": "r1"},
}


def segments(terms: Any) -> list[str]:
    return [each["segments"]["zone"] + each["segments"]["rack"] for each in terms]


def test_the_place_of_the_selected_node_comes_first():
    found = requirement("d", "data", (), "b", NODES, LABELS)
    assert segments(found["requisite"]) == ["z1r1", "z2r1", "z1r2"]
    assert segments(found["preferred"]) == ["z1r2", "z1r1", "z2r1"]


def test_without_a_node_claims_of_a_set_spread_over_the_places():
    firsts = [
        segments(requirement("d", f"data-web-{number}", (), "", NODES, LABELS)["preferred"])[0]
        for number in range(3)
    ]
    assert len(set(firsts)) == 3
    assert spread("data-web-1") == spread("logs-web-1")
    assert (spread(""), spread("a")) == (0x811C9DC5, 0x050C5D7E)


def test_allowed_topologies_are_every_combination_of_their_values():
    allowed = [
        {
            "matchLabelExpressions": [
                {"key": "zone", "values": ["z1", "z2"]},
                {"key": "rack", "values": ["r1"]},
            ]
        }
    ]
    assert flattened(allowed) == [
        (("rack", "r1"), ("zone", "z1")),
        (("rack", "r1"), ("zone", "z2")),
    ]
    found = requirement("d", "data", allowed, "c", NODES, LABELS)
    assert segments(found["preferred"])[0] == "z2r1"
    with pytest.raises(TopologyError, match="is not in requisite"):
        requirement("d", "data", allowed, "b", NODES, LABELS)


def test_nodes_without_the_driver_are_no_place():
    with pytest.raises(TopologyError, match="no available topology found"):
        requirement("other", "data", (), "", NODES, LABELS)
    with pytest.raises(TopologyError, match="no topology key found for node a"):
        requirement("other", "data", (), "a", NODES, LABELS)
    with pytest.raises(TopologyError, match="were not found on any nodes"):
        requirement("d", "data", (), "", NODES, {"a": {}})
    assert node_affinity(()) is None


# ---------------------------------------------------------------------- secrets

PREFIX = "csi.storage.k8s.io/"


def secret(name: str) -> Any:
    return SECRETS, {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"key": b64encode(b"sesame").decode()},
    }


def test_secrets_of_a_class_go_to_the_driver_and_onto_the_volume():
    parameters = {"kind": "ssd", f"{PREFIX}fstype": "xfs"}
    for key in ("provisioner", "controller-publish", "node-stage"):
        parameters[f"{PREFIX}{key}-secret-name"] = "${pvc.name}-key"
        parameters[f"{PREFIX}{key}-secret-namespace"] = "${pvc.namespace}"

    async def remove(client: Any, _ctx: Any) -> None:
        await client.delete(PODS, "default", "web")
        await client.delete(CLAIMS, "default", "data")

    small = world(
        secret("data-key"),
        storage_class(parameters=parameters),
        claim("data"),
        pod("web", "data", terminationGracePeriodSeconds=1),
        30,
        remove,
        60,
    ).run()
    for method in (
        "CreateVolume",
        "ControllerPublishVolume",
        "NodeStageVolume",
        "ControllerUnpublishVolume",
        "DeleteVolume",
    ):
        assert all(each["secrets"] == {"key": "sesame"} for each in calls(small, method)), method
    assert not calls(small, "NodePublishVolume")[0].get("secrets")
    assert calls(small, "CreateVolume")[0]["parameters"] == {"kind": "ssd"}
    assert disk(small).volumes == {}
    assert small.objects("persistentvolumes") == []


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (
            {f"{PREFIX}provisioner-secret-name": "key"},
            "failed to get name and namespace template from params: either name and namespace for "
            "Provisioner secrets specified, Both must be specified",
        ),
        (
            {
                f"{PREFIX}provisioner-secret-name": "${pvc.uid}",
                f"{PREFIX}provisioner-secret-namespace": "default",
            },
            'error resolving value "${pvc.uid}": invalid tokens: ["pvc.uid"]',
        ),
        (
            {
                f"{PREFIX}provisioner-secret-name": "gone",
                f"{PREFIX}provisioner-secret-namespace": "default",
            },
            'error getting secret gone in namespace default: secrets "gone" not found',
        ),
        (
            {f"{PREFIX}unheard": "x"},
            "failed to strip CSI Parameters of prefixed keys: found unknown parameter key "
            '"csi.storage.k8s.io/unheard" with reserved namespace csi.storage.k8s.io/',
        ),
    ],
)
def test_what_a_class_says_wrongly_is_told_in_upstreams_words(parameters, said):
    small = world(storage_class(parameters=parameters), claim("data"), 5)
    small.cluster.world.run("bare", until_ns=8_000_000_000)
    assert set(failures(small)) == {said}
    assert calls(small, "CreateVolume") == []
