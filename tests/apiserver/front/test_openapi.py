"""OpenAPI documents: what kubectl decides by them, and how they are cached."""

import json

import pytest

from controlplane.api.request import ADMIN
from controlplane.apiserver.front import openapi, openapi_v2
from controlplane.apiserver.front.answering import answer, served_by
from controlplane.apiserver.http.answer_bodies import encoded
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.schema.types import load_data
from tests.apiserver.world import World

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "nullable": True}},
                            }
                        },
                    }
                },
            }
        ],
    },
}


def get(world, path, *, accept="application/json", etag="", **query):
    headers = {"accept": accept, **({"if-none-match": etag} if etag else {})}
    values = {key: [value] for key, value in query.items()}
    return answer(world.server, HttpRequest("GET", path, values, headers, b"", ADMIN), world.now)


def index(world):
    return json.loads(get(world, "/openapi/v3").text)["paths"]


def message(data):
    """The fields of a protobuf message: number and value."""
    at = 0

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    found = []
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        else:
            assert key & 7 == 2
            size = varint()
            found.append((key >> 3, data[at : at + size]))
            at += size
    return found


def test_a_document_is_immutable_under_the_address_that_the_index_gives():
    world = World()
    path, _, digest = index(world)["apis/apps/v1"]["serverRelativeURL"].partition("?hash=")
    found = get(world, path, hash=digest)
    assert found.headers["Cache-Control"].startswith("public, immutable")
    assert found.headers["ETag"] == f'"{digest}"'
    assert "Cache-Control" not in get(world, path).headers
    assert get(world, path, etag=f'"{digest}"').code == 304
    moved = get(world, path, hash="OLD")
    assert (moved.code, moved.headers["Location"]) == (301, f"{path}?hash={digest}")


def test_every_group_version_has_a_document_and_other_paths_have_none():
    world = World()
    names = index(world)
    assert {"api", "api/v1", "apis", "apis/apps", "apis/batch/v1", "version"} <= set(names)
    for name in names:
        assert get(world, f"/openapi/v3/{name}").tree["openapi"] == "3.0.0"
    assert get(world, "/openapi/v3/apis/nope/v1").code == 404


def test_all_references_of_a_document_lead_somewhere():
    world = World()
    for name in index(world):
        tree = get(world, f"/openapi/v3/{name}").tree
        text = json.dumps(tree)
        for part in text.split('"$ref": "#/components/schemas/')[1:]:
            assert part.partition('"')[0] in tree["components"]["schemas"]


def test_fields_tell_types_defaults_choices_and_merge_rules():
    kinds = get(World(), "/openapi/v3/apis/apps/v1").tree["components"]["schemas"]
    strategy = kinds["io.k8s.api.apps.v1.DeploymentStrategy"]["properties"]
    assert strategy["type"]["enum"] == ["Recreate", "RollingUpdate"]
    assert strategy["type"]["type"] == "string"
    ports = kinds["io.k8s.api.core.v1.Container"]["properties"]["ports"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    limits = kinds["io.k8s.api.core.v1.ResourceRequirements"]["properties"]["limits"]
    assert limits["additionalProperties"]["$ref"].endswith(".Quantity")


def test_patch_operations_say_that_the_server_validates_fields():
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    operation = get(World(), "/openapi/v3/apis/apps/v1").tree["paths"][path]["patch"]
    assert operation["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    assert "fieldValidation" in [each["name"] for each in operation["parameters"]]
    scale = get(World(), "/openapi/v3/apis/apps/v1").tree["paths"][path + "/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
    }


def test_a_definition_brings_its_schema_and_changes_the_hash():
    world = World()
    before = index(world)
    world.create("customresourcedefinitions", WIDGETS, group="apiextensions.k8s.io", namespace="")
    after = index(world)
    assert set(after) - set(before) == {"apis/example.com/v1"}
    assert after["apis/apps/v1"] == before["apis/apps/v1"]
    kinds = get(world, "/openapi/v3/apis/example.com/v1").tree["components"]["schemas"]
    assert "spec" in kinds["com.example.v1.Widget"]["properties"]
    old = openapi_v2.document(served_by(world.server))["definitions"]["com.example.v1.Widget"]
    assert old["properties"]["spec"]["properties"]["size"] == {}


def test_the_old_document_is_one_protobuf_message_with_all_types():
    world = World()
    found = get(world, "/openapi/v2", accept=PROTOBUF)
    assert found.headers["Content-Type"] == PROTOBUF.replace("@", ".")
    fields = message(b"".join(encoded(found, pretty=False)))
    assert fields[0] == (1, b"2.0")
    definitions = message(dict(fields)[9])
    names = {dict(message(raw))[1].decode() for _, raw in definitions}
    tree = get(world, "/openapi/v2").tree
    assert names == set(tree["definitions"])
    paths = {dict(message(raw))[1].decode() for _, raw in message(dict(fields)[8])}
    assert paths == set(tree["paths"])
    assert get(world, "/openapi/v2", accept=PROTOBUF, etag=found.headers["ETag"]).code == 304


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"])
def test_documents_are_served_whatever_the_method(path):
    http = HttpRequest("POST", path, {}, {}, b"{}", ADMIN)
    assert answer(World().server, http, 0).code == 200


def test_types_refer_only_to_types_that_exist():
    found = {}
    for name in load_data("types")["types"]:
        openapi.used(name, found)
    assert set(found) <= set(load_data("types")["types"])
