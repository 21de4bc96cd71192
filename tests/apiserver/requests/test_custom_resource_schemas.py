"""Custom resources on their way through the server: what their schema keeps, fills in, refuses, and who owns it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apiserver.world import APPLY, MERGE, World

GROUP = "example.com"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def world_with(schema: dict[str, Any], plural: str = "foos", **version: Any) -> World:
    made = World(track_fields=True)
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Foo", "plural": plural},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", **schema}},
                    **version,
                }
            ],
        },
    }
    answer = made.create(
        "customresourcedefinitions", body, group="apiextensions.k8s.io", namespace=""
    )
    assert answer.code == 201, answer.tree
    return made


def foo(**rest: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Foo", "metadata": {"name": "a"}, **rest}


def owned(answer: Any) -> dict[str, Any]:
    return dict(answer.tree["metadata"]["managedFields"][0]["fieldsV1"])


def test_a_schema_may_require_metadata_kind_and_version() -> None:
    world = world_with(
        {
            "required": ["metadata", "kind", "apiVersion", "spec"],
            "properties": {
                "metadata": {"type": "object"},
                "kind": {"type": "string"},
                "apiVersion": {"type": "string"},
                "spec": OPEN,
            },
        }
    )
    assert world.create("foos", foo(spec={}), group=GROUP).code == 201
    refused = world.create("foos", foo(), group=GROUP)
    assert [cause["field"] for cause in refused.tree["details"]["causes"]] == ["spec"]


def test_a_schema_restricts_the_name_in_the_metadata() -> None:
    meta = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 2}}}
    world = world_with({"properties": {"metadata": meta}})
    assert world.create("foos", foo(), group=GROUP).code == 201
    refused = world.create("foos", {**foo(), "metadata": {"name": "abc"}}, group=GROUP)
    assert refused.tree["details"]["causes"][0]["field"] == "metadata.name"


@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        {"type": "object", "additionalProperties": OPEN},
        {"type": "array", "items": OPEN},
        {"x-kubernetes-preserve-unknown-fields": True},
        {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
    ],
)
def test_unknown_fields_below_preserved_ones_stay(schema: dict[str, Any]) -> None:
    world = world_with({"properties": {"spec": schema}})
    inner = {"deep": [{"x": {"y": [1, None]}}]}
    value: Any = [inner] if schema.get("type") == "array" else {"k": inner}
    answer = world.do("create", "foos", body=foo(spec=value), group=GROUP, fieldValidation="Strict")
    assert answer.code == 201, answer.tree
    assert answer.tree["spec"] == value


def test_specified_parts_below_preserved_ones_are_pruned() -> None:
    known = {"type": "object", "properties": {"x": {"type": "string"}}}
    world = world_with({"properties": {"spec": {**OPEN, "properties": {"known": known}}}})
    answer = world.create(
        "foos", foo(spec={"known": {"x": "a", "y": 1}, "z": {"y": 1}}), group=GROUP
    )
    assert answer.tree["spec"] == {"known": {"x": "a"}, "z": {"y": 1}}
    assert answer.warnings == ['unknown field "spec.known.y"']


def test_the_metadata_of_an_embedded_resource_is_that_of_any_object() -> None:
    embedded = {**OPEN, "x-kubernetes-embedded-resource": True}
    world = world_with({"properties": {"spec": embedded}})
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "b", "odd": 1}, "rest": {}}
    answer = world.create("foos", foo(spec=inner), group=GROUP)
    assert answer.tree["spec"] == {**inner, "metadata": {"name": "b"}}
    assert answer.warnings == ['unknown field "spec.metadata.odd"']
    unreadable = world.create("foos", foo(spec={**inner, "kind": 5}), group=GROUP)
    assert (unreadable.code, unreadable.tree["message"]) == (
        400,
        'Foo in version "v1" cannot be handled as a Foo: spec.kind: Invalid value: 5: must be a string',
    )
    refused = world.create("foos", foo(spec={"metadata": {"name": "b/c"}}), group=GROUP)
    assert [cause["field"] for cause in refused.tree["details"]["causes"]] == [
        "spec.apiVersion",
        "spec.kind",
        "spec.metadata.name",
    ]


STATUS = {
    "type": "object",
    "properties": {"seen": {"type": "integer"}, "phase": {"type": "string", "default": "New"}},
    "default": {"seen": -1},
}


def test_the_default_of_a_cleared_status_is_answered_listed_and_kept() -> None:
    world = world_with(
        {"properties": {"status": STATUS, "spec": OPEN}}, subresources={"status": {}}
    )
    expected = {"seen": -1, "phase": "New"}
    created = world.create("foos", foo(status={"seen": 5}), group=GROUP)
    assert created.tree["status"] == expected
    assert world.get("foos", "a", group=GROUP).tree["status"] == expected
    assert world.do("list", "foos", group=GROUP).tree["items"][0]["status"] == expected
    patched = world.patch("foos", "a", {"spec": {"x": 1}}, MERGE, group=GROUP)
    assert patched.tree["status"] == expected
    assert patched.tree["metadata"]["generation"] == 2


def test_a_null_that_must_not_be_becomes_the_default_or_goes() -> None:
    text = {"type": "string"}
    properties = {
        "a": {**text, "default": "x"},
        "b": text,
        "c": {**text, "nullable": True, "default": "y"},
        "list": {"type": "array", "items": {**text, "default": "z"}},
        "map": {"type": "object", "additionalProperties": {**text, "default": "w"}},
    }
    world = world_with({"properties": {"spec": {"type": "object", "properties": properties}}})
    spec = {"a": None, "b": None, "c": None, "list": [None, "1"], "map": {"k": None}}
    answer = world.create("foos", foo(spec=spec), group=GROUP)
    assert answer.tree["spec"] == {"a": "x", "c": None, "list": ["z", "1"], "map": {"k": "w"}}


def test_owners_hold_each_leaf_below_preserved_fields() -> None:
    world = world_with({"properties": {"spec": OPEN}})
    spec = {"a": {"b": 1, "c": {}}, "l": [{"x": 1}]}
    created = world.do("create", "foos", body=foo(spec=spec), group=GROUP, fieldManager="m")
    assert owned(created)["f:spec"] == {
        ".": {},
        "f:a": {".": {}, "f:b": {}, "f:c": {}},
        "f:l": {},
    }


def test_applied_parts_of_preserved_fields_are_merged() -> None:
    world = world_with({"properties": {"spec": OPEN}})
    for manager, spec in (("m", {"a": {"x": 1}}), ("n", {"a": {"y": {"z": [2]}}})):
        answer = world.do(
            "patch", "foos", "a", foo(spec=spec), group=GROUP, media=APPLY, fieldManager=manager
        )
        assert answer.code in (200, 201), answer.tree
    assert answer.tree["spec"] == {"a": {"x": 1, "y": {"z": [2]}}}
    gone = world.do("patch", "foos", "a", foo(spec={}), group=GROUP, media=APPLY, fieldManager="n")
    assert gone.tree["spec"] == {"a": {"x": 1}}


def test_what_an_update_leaves_unchanged_is_not_reported_again() -> None:
    world = world_with(
        {
            "properties": {
                "spec": {
                    "type": "object",
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                }
            }
        }
    )
    world.create("foos", foo(spec={"a": "long", "b": "long"}), group=GROUP)
    found = world.get(
        "customresourcedefinitions", f"foos.{GROUP}", group="apiextensions.k8s.io", namespace=""
    ).tree
    stricter = {"type": "string", "maxLength": 2}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": stricter, "b": stricter}}},
    }
    version = {**found["spec"]["versions"][0], "schema": {"openAPIV3Schema": schema}}
    world.patch(
        "customresourcedefinitions",
        f"foos.{GROUP}",
        {"spec": {"versions": [version]}},
        MERGE,
        group="apiextensions.k8s.io",
        namespace="",
    )
    assert world.patch("foos", "a", {"spec": {"b": "ok"}}, MERGE, group=GROUP).code == 200
    refused = world.patch("foos", "a", {"spec": {"b": "worse"}}, MERGE, group=GROUP)
    assert [
        cause["field"] for cause in refused.tree["details"]["causes"] if cause["field"] != "<nil>"
    ] == ["spec.b"]


def test_a_custom_resource_named_as_a_built_in_one_has_none_of_its_admission() -> None:
    world = world_with({"properties": {"spec": OPEN}}, plural="nodes")
    answer = world.create("nodes", foo(spec={}), group=GROUP)
    assert answer.tree["spec"] == {}


def test_a_dry_run_takes_an_object_with_a_version() -> None:
    world = world_with({"properties": {"spec": OPEN}})
    body = {**foo(), "metadata": {"name": "a", "resourceVersion": "7"}}
    dry = world.do("create", "foos", body=body, group=GROUP, dryRun="All")
    assert (dry.code, dry.tree["metadata"]["resourceVersion"]) == (201, "7")
    assert world.create("foos", body, group=GROUP).code == 500


def test_the_service_of_a_conversion_webhook_has_port_443_unless_given() -> None:
    world = World()
    service = {"name": "s", "namespace": "n"}
    hook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"foos.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"kind": "Foo", "plural": "foos"},
            "conversion": {"strategy": "Webhook", "webhook": hook},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    answer = world.create(
        "customresourcedefinitions", body, group="apiextensions.k8s.io", namespace=""
    )
    found = answer.tree["spec"]["conversion"]["webhook"]["clientConfig"]["service"]
    assert found == {**service, "port": 443}


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ({"type": "string", "format": "hostname"}, []),
        ({"type": "string", "format": "uu-id"}, []),
        ({"type": "string", "format": "int32"}, ["int32"]),
        ({"type": "integer", "format": "int32"}, []),
        ({"type": "integer", "format": "hostname"}, ["hostname"]),
        ({"type": "array", "format": "cidr", "items": {"type": "string"}}, ["cidr"]),
    ],
)
def test_formats_that_the_type_does_not_know_are_warned_of(
    schema: dict[str, Any], texts: list[str]
) -> None:
    world = World()
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": schema}}},
    }
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"foos.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": [version],
        },
    }
    answer = world.create(
        "customresourcedefinitions", body, group="apiextensions.k8s.io", namespace=""
    )
    assert answer.warnings == [f'unrecognized format "{text}"' for text in texts]


def test_an_absent_key_of_a_list_has_the_default_of_its_schema_in_paths_of_owners() -> None:
    port = {
        "type": "object",
        "required": ["port"],
        "properties": {
            "port": {"type": "integer"},
            "protocol": {"type": "string", "default": "TCP"},
        },
    }
    ports = {
        "type": "array",
        "items": port,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
    }
    world = world_with({"properties": {"ports": ports}})
    applied = world.do(
        "patch", "foos", "a", foo(ports=[{"port": 1}]), group=GROUP, media=APPLY, fieldManager="m"
    )
    assert list(owned(applied)["f:ports"]) == ['k:{"port":1,"protocol":"TCP"}']


def test_signs_of_html_are_escaped_in_paths_of_owners() -> None:
    items = {"type": "string"}
    tags = {"type": "array", "items": items, "x-kubernetes-list-type": "set"}
    world = world_with({"properties": {"tags": tags}})
    applied = world.do(
        "patch", "foos", "a", foo(tags=["a<b&c>d"]), group=GROUP, media=APPLY, fieldManager="m"
    )
    assert list(owned(applied)["f:tags"]) == ['v:"a\\u003cb\\u0026c\\u003ed"']
