"""The order in which an applied configuration is judged, and the managers it leaves."""

from __future__ import annotations

from typing import Any

from tests.apiserver.world import APPLY, World, config_map


def applied(world: World, name: str, body: Any, **query: str) -> Any:
    return world.do("patch", "configmaps", name, body, media=APPLY, fieldManager="m", **query)


def named(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}


def test_the_uid_of_a_missing_object_is_told_before_its_name() -> None:
    refused = applied(World(), "a", named("b", uid="u"))
    assert refused.code == 409
    assert "uid mismatch" in refused.tree["message"]


def test_the_namespace_is_told_before_the_name() -> None:
    world = World()
    world.create("configmaps", config_map("a"))
    for name in ("a", "c"):
        refused = applied(world, name, named("b", namespace="other"))
        assert refused.tree["message"].startswith("the namespace of the provided object")
        assert applied(world, name, named("b")).code == 400


def test_what_the_schema_lacks_is_told_before_the_name() -> None:
    refused = applied(World(), "a", {**named("b"), "zz": 1})
    assert refused.code == 500
    assert "(/b; /v1, Kind=ConfigMap): .zz: field not declared" in refused.tree["message"]


def test_a_kind_of_another_type_counts_as_none() -> None:
    for body, told in (
        ({**named("a"), "kind": 5}, "/v1, Kind="),
        ({**named("a"), "apiVersion": {}}, "/, Kind=ConfigMap"),
        ({**named("a"), "apiVersion": "a/b/c"}, "/, Kind="),
    ):
        refused = applied(World(), "a", body)
        assert (refused.code, refused.tree["message"]) == (400, f"invalid object type: {told}")


def test_a_status_that_is_not_there_is_missing_whatever_is_applied() -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b"}, "zz": 1}
    refused = World().do("patch", "pods", "a", body, media=APPLY, sub="status", fieldManager="m")
    assert refused.code == 404


def test_a_version_of_a_missing_object_is_read_and_forgotten() -> None:
    world = World()
    refused = applied(world, "a", named("a", resourceVersion="x"))
    assert (refused.code, refused.tree["message"]) == (
        500,
        'strconv.ParseUint: parsing "x": invalid syntax',
    )
    assert applied(world, "a", named("a", resourceVersion="5")).code == 201


def test_owners_before_the_first_apply_have_the_subresource_that_is_applied() -> None:
    world = World(track_fields=True)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    world.create("pods", pod)
    world.patch("pods", "a", {"metadata": {"managedFields": [{}]}})
    status = {**pod, "spec": None, "status": {"message": "x"}}
    found = world.do("patch", "pods", "a", status, media=APPLY, sub="status", fieldManager="m")
    first = next(
        each
        for each in found.tree["metadata"]["managedFields"]
        if each["manager"] == "before-first-apply"
    )
    assert first["subresource"] == "status"
    assert "f:spec" not in first["fieldsV1"]


def test_writers_of_a_status_own_no_metadata_where_it_keeps_them() -> None:
    world = World(track_fields=True)
    where = {"group": "storage.k8s.io", "namespace": ""}
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "a"},
        "spec": {"attacher": "x.io", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    }
    made = world.create("volumeattachments", body, **where).tree
    patch = {"metadata": {"labels": {"a": "b"}, "finalizers": ["x.io/y"]}}
    found = world.patch("volumeattachments", "a", patch, sub="status", **where).tree
    assert found["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
