"""OpenAPI documents and discovery of custom resources, as API server 1.36 answers for the same definitions."""

import json

import pytest

from controlplane.apiserver.front import openapi_v2
from controlplane.apiserver.front.answering import served_by
from tests.apiserver.front.test_openapi import get, index, message
from tests.apiserver.world import World

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
EITHER = [{"type": "integer"}, {"type": "string"}]


def definition(
    kind, schema, *, group="farm.example.io", scope="Namespaced", versions=("v1",), **more
):
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": scope,
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == versions[0],
                    "schema": {"openAPIV3Schema": schema},
                    **more,
                }
                for name in versions
            ],
        },
    }


def world_with(*definitions):
    world = World()
    for each in definitions:
        found = world.create(
            "customresourcedefinitions", each, group="apiextensions.k8s.io", namespace=""
        )
        assert found.code == 201, found.tree
    return world


def of_fields(**fields):
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


def types(world, version="v1"):
    tree = get(world, f"/openapi/v3/apis/farm.example.io/{version}").tree
    return tree["components"]["schemas"]


def old_types(world):
    return openapi_v2.document(served_by(world.server))["definitions"]


def fields_of(found, kind):
    return found[f"io.example.farm.v1.{kind}"]["properties"]["spec"]["properties"]


def test_every_object_has_version_kind_and_metadata_even_without_declared_fields():
    world = world_with(definition("Plot", {"type": "object"}))
    own = types(world)["io.example.farm.v1.Plot"]
    assert set(own["properties"]) == {"apiVersion", "kind", "metadata"}
    assert own["properties"]["metadata"]["allOf"] == [
        {"$ref": f"#/components/schemas/{META}ObjectMeta"}
    ]
    assert own["x-kubernetes-group-version-kind"] == [
        {"group": "farm.example.io", "kind": "Plot", "version": "v1"}
    ]
    assert set(old_types(world)["io.example.farm.v1.Plot"]["properties"]) == set(own["properties"])


def test_declared_version_kind_and_metadata_give_way_to_those_of_all_objects():
    given = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "enum": ["farm.example.io/v1"]},
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 5}},
            },
        },
    }
    own = types(world_with(definition("Plot", given)))["io.example.farm.v1.Plot"]["properties"]
    assert set(own["apiVersion"]) == {"description", "type"}
    assert set(own["metadata"]) == {"description", "allOf"}


@pytest.mark.parametrize(
    ("given", "published"),
    [
        (
            {"type": "string", "title": "T", "minLength": 0, "uniqueItems": False, "default": ""},
            {"type": "string", "title": "T", "minLength": 0, "default": ""},
        ),
        ({"type": "object", "properties": {}, "required": []}, {"type": "object"}),
        (
            {"type": "number", "maximum": 5.0, "minimum": 1e3, "exclusiveMaximum": True},
            {"type": "number", "maximum": 5, "minimum": 1000, "exclusiveMaximum": True},
        ),
        (
            {"x-kubernetes-int-or-string": True, "pattern": "^a"},
            {"x-kubernetes-int-or-string": True, "pattern": "^a", "anyOf": EITHER},
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": EITHER},
            {"x-kubernetes-int-or-string": True, "anyOf": EITHER},
        ),
        (
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"pattern": "a"}],
                "allOf": [{"minLength": 1}],
            },
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"pattern": "a"}],
                "allOf": [{"anyOf": EITHER}, {"minLength": 1}],
            },
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"type": "object", "additionalProperties": False},
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
            {"type": "object", "additionalProperties": {"type": "string", "nullable": True}},
        ),
        (
            {
                "type": "string",
                "oneOf": [{"pattern": "x"}, {"format": "date"}],
                "not": {"enum": ["u"]},
            },
            {
                "type": "string",
                "oneOf": [{"pattern": "x"}, {"format": "date"}],
                "not": {"enum": ["u"]},
            },
        ),
        (
            {"type": "string", "externalDocs": {"url": "u"}, "example": ""},
            {"type": "string", "externalDocs": {"url": "u"}},
        ),
    ],
)
def test_a_schema_is_published_in_its_structural_form(given, published):
    found = types(world_with(definition("Plot", of_fields(it=given))))
    assert json.dumps(fields_of(found, "Plot")["it"], sort_keys=True) == json.dumps(
        published, sort_keys=True
    )


@pytest.mark.parametrize(
    ("given", "published"),
    [
        ({"type": "object", "nullable": True, "properties": {"x": {"type": "string"}}}, {}),
        ({"type": "array", "nullable": True, "items": {"type": "string"}}, {}),
        (
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"z": {"type": "integer"}},
            },
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            {
                "type": "array",
                "x-kubernetes-preserve-unknown-fields": True,
                "items": {"type": "string"},
            },
            {"x-kubernetes-preserve-unknown-fields": True},
        ),
        (
            {"x-kubernetes-int-or-string": True, "anyOf": EITHER},
            {"x-kubernetes-int-or-string": True},
        ),
        (
            {"type": "string", "oneOf": [{"pattern": "x"}], "not": {"enum": ["u"]}, "default": "x"},
            {"type": "string"},
        ),
        (
            {
                "type": "object",
                "required": ["a", "b"],
                "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "string"}},
            },
            {"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}},
        ),
        (
            {
                "type": "object",
                "additionalProperties": {"type": "string", "nullable": True},
                "required": ["a"],
            },
            {"type": "object", "additionalProperties": {}},
        ),
    ],
)
def test_version_2_leaves_out_what_it_cannot_express(given, published):
    found = old_types(world_with(definition("Plot", of_fields(it=given))))
    assert fields_of(found, "Plot")["it"] == published


def test_version_2_has_no_fields_of_a_kind_that_keeps_unknown_ones():
    given = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": {"type": "string"}},
    }
    world = world_with(definition("Plot", given))
    assert set(old_types(world)["io.example.farm.v1.Plot"]) == {
        "type",
        "x-kubernetes-group-version-kind",
    }
    assert "a" in types(world)["io.example.farm.v1.Plot"]["properties"]


def test_an_embedded_object_has_the_fields_of_all_objects_and_requires_two():
    inner = {"type": "object", "x-kubernetes-embedded-resource": True}
    world = world_with(
        definition(
            "Plot",
            of_fields(
                open={**inner, "x-kubernetes-preserve-unknown-fields": True},
                closed={
                    **inner,
                    "properties": {"spec": {"type": "object"}},
                    "required": ["apiVersion"],
                },
            ),
        )
    )
    found = fields_of(types(world), "Plot")
    assert set(found["open"]["properties"]) == {"apiVersion", "kind", "metadata"}
    assert found["open"]["required"] == ["kind", "apiVersion"]
    assert found["closed"]["required"] == ["apiVersion", "kind"]
    old = fields_of(old_types(world), "Plot")
    assert "properties" not in old["open"]
    assert old["closed"]["properties"]["metadata"]["$ref"] == f"#/definitions/{META}ObjectMeta"


def test_selectable_fields_are_told_of_the_type_and_of_its_list():
    world = world_with(
        definition(
            "Plot", of_fields(e={"type": "string"}), selectableFields=[{"jsonPath": ".spec.e"}]
        )
    )
    for kind in ("Plot", "PlotList"):
        own = types(world)[f"io.example.farm.v1.{kind}"]
        assert own["x-kubernetes-selectable-fields"] == [{"fieldPath": "spec.e"}]


def test_operations_have_upstreams_identifiers_and_descriptions():
    sub = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"},
    }
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    world = world_with(
        definition("Orchard", schema, subresources=sub),
        definition("House", schema, scope="Cluster"),
        definition("Bees", schema, group="hive.k8s.io.example.io"),
    )
    paths = get(world, "/openapi/v3/apis/farm.example.io/v1").tree["paths"]
    place = "/apis/farm.example.io/v1/namespaces/{namespace}/orchards"
    told = {
        (path, method): (each["operationId"], each["description"])
        for path, methods in paths.items()
        for method, each in methods.items()
        if method != "parameters"
    }
    assert told["/apis/farm.example.io/v1/orchards", "get"] == (
        "listFarmExampleIoV1OrchardForAllNamespaces",
        "list objects of kind Orchard",
    )
    assert told[place, "delete"] == (
        "deleteFarmExampleIoV1CollectionNamespacedOrchard",
        "delete collection of Orchard",
    )
    assert told[place, "post"] == ("createFarmExampleIoV1NamespacedOrchard", "create an Orchard")
    assert told[f"{place}/{{name}}/scale", "patch"] == (
        "patchFarmExampleIoV1NamespacedOrchardScale",
        "partially update scale of the specified Orchard",
    )
    assert told["/apis/farm.example.io/v1/houses/{name}", "delete"] == (
        "deleteFarmExampleIoV1House",
        "delete a House",
    )
    assert "io.k8s.api.autoscaling.v1.Scale" in types(world)
    other = get(world, "/openapi/v3/apis/hive.k8s.io.example.io/v1").tree
    create = other["paths"]["/apis/hive.k8s.io.example.io/v1/namespaces/{namespace}/beess"]["post"]
    assert create["description"] == "create Bees"
    assert create["tags"] == ["hiveK8sIoExampleIo_v1"]


def test_parameters_of_all_operations_of_a_path_stand_at_the_path():
    world = world_with(definition("Plot", {"type": "object"}))
    paths = get(world, "/openapi/v3/apis/farm.example.io/v1").tree["paths"]
    one = paths["/apis/farm.example.io/v1/namespaces/{namespace}/plots/{name}"]
    assert [each["name"] for each in one["parameters"]] == ["name", "namespace", "pretty"]
    assert [each["name"] for each in one["patch"]["parameters"]] == [
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
    ]
    assert "parameters" not in paths["/apis/farm.example.io/v1/plots"]["get"]


def test_all_references_of_a_custom_document_lead_somewhere():
    sub = {"scale": {"specReplicasPath": ".spec.a", "statusReplicasPath": ".status.a"}}
    world = world_with(definition("Plot", {"type": "object"}, subresources=sub))
    tree = get(world, "/openapi/v3/apis/farm.example.io/v1").tree
    for part in json.dumps(tree).split('"$ref": "#/components/schemas/')[1:]:
        assert part.partition('"')[0] in tree["components"]["schemas"]
    old = openapi_v2.document(served_by(world.server))
    for kind in ("definitions", "parameters"):
        for part in json.dumps(old).split(f'"$ref": "#/{kind}/')[1:]:
            assert part.partition('"')[0] in old[kind]


def test_shared_parameters_of_version_2_are_named_by_their_hash():
    old = openapi_v2.document(served_by(world_with(definition("Plot", {"type": "object"})).server))
    assert len(old["parameters"]) == 22
    assert {
        "allowWatchBookmarks-HC2hJt-J",
        "body-2Y1dVQaQ",
        "namespace-vgWSWtn3",
        "limit-1NfNmdNH",
        "fieldManager-7c6nTn1T",
    } <= set(old["parameters"])
    patch = old["paths"]["/apis/farm.example.io/v1/namespaces/{namespace}/plots/{name}"]["patch"]
    # kubectl before 1.27 looks for these two in the operation itself
    assert [each["name"] for each in patch["parameters"] if "name" in each] == [
        "dryRun",
        "fieldValidation",
    ]


def test_the_protobuf_form_has_the_shared_parameters_and_custom_types():
    given = of_fields(
        n={"type": "number", "maximum": 5, "exclusiveMaximum": True, "example": 1},
        d={"type": "string", "externalDocs": {"url": "u"}, "enum": ["a"]},
    )
    world = world_with(definition("Plot", given))
    fields = dict(message(get(world, "/openapi/v2", accept=PROTOBUF).tree))
    names = {dict(message(raw))[1].decode() for _, raw in message(fields[10])}
    assert "limit-1NfNmdNH" in names and len(names) == 22
    kinds = {dict(message(raw))[1].decode() for _, raw in message(fields[9])}
    assert {"io.example.farm.v1.Plot", "io.example.farm.v1.PlotList"} <= kinds


def test_the_index_has_the_served_versions_of_a_custom_group_and_not_the_group():
    world = World()
    before = index(world)
    keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    more = definition("Plot", keeps, versions=("v1", "v2"))
    more["spec"]["versions"][1]["served"] = False
    world.create("customresourcedefinitions", more, group="apiextensions.k8s.io", namespace="")
    assert set(index(world)) - set(before) == {"apis/farm.example.io/v1"}


def test_versions_of_a_group_are_ordered_by_stability_and_number_then_other_names_by_alphabet():
    keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = ("zoo", "v1alpha1", "foo", "v1beta1", "v2alpha1", "v1", "v10")
    world = world_with(definition("Plot", keeps, versions=names))
    tree = get(world, "/apis/farm.example.io").tree
    told = [each["version"] for each in tree["versions"]]
    assert told == ["v10", "v1", "v1beta1", "v2alpha1", "v1alpha1", "foo", "zoo"]
    assert tree["preferredVersion"]["version"] == "v10"


def test_custom_groups_are_listed_by_their_api_services_and_aggregated_by_name():
    keeps = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    world = world_with(
        definition("Plot", keeps, group="a.example.io", versions=("v2",)),
        definition("Plot", keeps, group="b.example.io", versions=("v1",)),
        definition("Plot", keeps, group="c.example.io", versions=("v3", "first")),
    )
    plain = [each["name"] for each in get(world, "/apis").tree["groups"][-3:]]
    assert plain == ["c.example.io", "b.example.io", "a.example.io"]
    items = get(world, "/apis", accept=AGGREGATED).tree["items"][-3:]
    assert [each["metadata"]["name"] for each in items] == [
        "a.example.io",
        "b.example.io",
        "c.example.io",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "v9/plots",
        "v1/nothings",
        "v1/namespaces/default/nothings",
        "v1/plots/a",
        "v1/namespaces/default/houses",
    ],
)
def test_a_path_that_no_definition_serves_is_no_api_error(path):
    schema = {"type": "object"}
    world = world_with(definition("Plot", schema), definition("House", schema, scope="Cluster"))
    found = get(world, f"/apis/farm.example.io/{path}")
    assert (found.code, found.text) == (404, "404 page not found\n")
