"""Bodies of the wrong types get the answers that upstream's decoders give, never a failure."""

import base64
import json

import pytest

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import answer
from controlplane.apiserver.requests.routing import HttpRequest
from tests.apiserver.world import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    World,
    config_map,
    deployment,
    pod,
)

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SECRETS = "/api/v1/namespaces/default/secrets"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"


def send(world, method, path, body=None, *, media="application/json", accept="", **query):
    raw = b"" if body is None else json.dumps(body).encode()
    headers = {"accept": accept or "application/json", "content-type": media, "user-agent": "t/1"}
    http = HttpRequest(
        method, path, {key: [value] for key, value in query.items()}, headers, raw, ADMIN
    )
    found = answer(world.server, http, world.now)
    world.server.advance()
    return found.code, (found.tree or {}).get("message", ""), found.tree


def world(**settings):
    made = World(**settings)
    assert send(made, "POST", PODS, pod("a"))[0] == 201
    assert send(made, "POST", DEPLOYMENTS, deployment("d"))[0] == 201
    return made


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("apiVersion", 1, "number"),
        ("kind", ["Pod"], "array"),
        ("kind", {}, "object"),
        ("apiVersion", True, "bool"),
    ],
)
def test_version_and_kind_must_be_texts(key, value, found):
    body = {key: value, "metadata": {"name": "b"}}
    code, text, tree = send(World(), "POST", PODS, body)
    assert (code, tree["reason"]) == (400, "BadRequest")
    assert text == (
        "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; "
        f"json parse error: json: cannot unmarshal {found} into Go struct field .{key} of type "
        f"string ({json.dumps(body)[:30]} ...)"
    )


def test_version_and_kind_must_be_texts_without_http_as_well():
    response = World().create("pods", {**pod("b"), "kind": 5})
    assert response.code == 400 and "Go struct field .kind of type string" in response.message
    response = World().create("pods", {**pod("b"), "apiVersion": [], "kind": "Pod"})
    assert response.code == 400 and "field .apiVersion of type string" in response.message


def test_a_patch_cannot_make_the_kind_a_number():
    for media, body in (
        (MERGE, {"kind": 1}),
        (JSON_PATCH, [{"op": "replace", "path": "/kind", "value": 1}]),
    ):
        code, text, tree = send(world(), "PATCH", f"{PODS}/a", body, media=media)
        assert (code, tree["reason"]) == (422, "Invalid")
        assert "cannot unmarshal number into Go struct field .kind of type string" in text


def test_a_json_patch_cannot_replace_the_object_by_something_else():
    body = [{"op": "replace", "path": "", "value": [1]}]
    code, text, _ = send(world(), "PATCH", f"{PODS}/a", body, media=JSON_PATCH)
    assert code == 422 and "cannot unmarshal array into Go value of type struct" in text


def test_a_patch_that_spoils_managed_fields_is_invalid():
    for value in (5, [7]):
        body = {"metadata": {"managedFields": value}}
        code, text, _ = send(world(), "PATCH", f"{PODS}/a", body, media=MERGE)
        assert code == 422 and "managedFields of type" in text


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"metadata": [], "target": {"name": "n"}}, "Binding.metadata of type v1.ObjectMeta"),
        ({"target": "n"}, "Binding.target of type v1.ObjectReference"),
        ({"target": {"name": 5}}, "ObjectReference.target.name of type string"),
        (
            {"metadata": {"annotations": 1}},
            "ObjectMeta.metadata.annotations of type map[string]string",
        ),
    ],
)
def test_bindings_are_decoded(body, where):
    code, text, _ = send(world(), "POST", f"{PODS}/a/binding", body)
    assert code == 400
    assert text.startswith('Binding in version "v1" cannot be handled as a Binding: ')
    assert text.endswith(where)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"metadata": "a"}, "Eviction.metadata of type v1.ObjectMeta"),
        (
            {"metadata": {"name": "a"}, "deleteOptions": []},
            "Eviction.deleteOptions of type v1.DeleteOptions",
        ),
        (
            {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": "1"}},
            "DeleteOptions.deleteOptions.gracePeriodSeconds of type int64",
        ),
    ],
)
def test_evictions_are_decoded(body, where):
    code, text, _ = send(world(), "POST", f"{PODS}/a/eviction", body)
    assert code == 400
    assert text.startswith('Eviction in version "v1" cannot be handled as a Eviction: ')
    assert text.endswith(where)


def test_token_requests_and_reviews_are_decoded():
    code, text, _ = send(World(), "POST", f"{ACCOUNT}/token", {"spec": {"expirationSeconds": "x"}})
    assert code in (400, 404) and (code == 404 or text.endswith("of type int64"))
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    code, text, _ = send(World(), "POST", path, {"spec": 5})
    assert code == 400 and "cannot unmarshal number into Go struct field" in text


def test_scales_are_decoded():
    path = f"{DEPLOYMENTS}/d/scale"
    code, text, _ = send(world(), "PUT", path, {"metadata": {"name": "d"}, "spec": 1})
    assert code == 400 and text.startswith('Scale in version "v1" cannot be handled as a Scale: ')
    code, text, _ = send(world(), "PATCH", path, {"kind": 1}, media=MERGE)
    assert code == 422 and "Go struct field .kind of type string" in text


def test_a_scale_as_a_table_has_columns_of_its_own():
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    code, _, table = send(world(), "GET", f"{DEPLOYMENTS}/d/scale", accept=accept)
    assert code == 200
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name",
        "Desired",
        "Available",
        "Age",
    ]
    assert table["rows"][0]["cells"][:3] == ["d", 1, 0]


def test_a_review_is_no_table():
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
    code, _, told = send(World(), "POST", path, {"spec": spec}, accept=accept)
    assert (code, told["reason"]) == (406, "NotAcceptable")
    code, _, told = send(World(), "POST", path, {"spec": spec}, accept=f"{accept},application/json")
    assert (code, told["kind"]) == (201, "SelfSubjectAccessReview")


def test_applied_configurations_name_version_and_kind_as_texts():
    body = {"apiVersion": 1, "kind": "Deployment", "metadata": {"name": "d"}}
    code, text, _ = send(
        world(track_fields=True), "PATCH", f"{DEPLOYMENTS}/d", body, media=APPLY, fieldManager="m"
    )
    assert (code, text) == (400, "invalid object type: /, Kind=Deployment")


def test_bytes_given_as_null_are_empty():
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": None}}
    assert send(World(), "POST", SECRETS, secret)[0] == 201
    body = {**config_map("m"), "binaryData": {"a": None}}
    assert send(World(), "POST", CONFIG_MAPS, body)[0] == 201


@pytest.mark.parametrize("value", [1, {}, True])
def test_bytes_must_be_texts(value):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": value}}
    code, text, _ = send(World(), "POST", SECRETS, secret)
    assert code == 400 and text.endswith("Go struct field Secret.data of type []uint8")


def test_unreadable_managed_fields_of_a_client_count_as_none():
    made = world(track_fields=True)
    body = deployment("d", 2)
    body["metadata"]["managedFields"] = [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": "x"}},
        }
    ]
    code, _, tree = send(made, "PUT", f"{DEPLOYMENTS}/d", body)
    assert code == 200 and tree["metadata"]["managedFields"][0]["manager"] == "t"


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (
            {"v": "meta.k8s.io/v1", "rv": 1, "start": 5},
            "number into Go struct field continueToken.start of type string",
        ),
        (
            {"v": "meta.k8s.io/v1", "rv": "x", "start": "a"},
            "string into Go struct field continueToken.rv of type int64",
        ),
        ([1], "array into Go value of type storage.continueToken"),
    ],
)
def test_continue_tokens_are_decoded(token, problem):
    text = base64.urlsafe_b64encode(json.dumps(token).encode()).decode().rstrip("=")
    code, message, _ = send(World(), "GET", PODS, **{"continue": text})
    assert (code, message) == (
        400,
        "invalid continue token: continue key is not valid: json: cannot unmarshal " + problem,
    )


def test_metadata_of_custom_resources_is_decoded():
    made = World()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    code, _, _ = send(
        made,
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "things.x.io"},
            "spec": {
                "group": "x.io",
                "scope": "Namespaced",
                "names": {"plural": "things", "kind": "Thing"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        },
    )
    assert code == 201
    path = "/apis/x.io/v1/namespaces/default/things"
    body = {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": [1]}}
    code, text, _ = send(made, "POST", path, body)
    assert code == 400 and text == (
        'Thing in version "v1" cannot be handled as a Thing: json: cannot unmarshal array into Go '
        "struct field ObjectMeta.name of type string"
    )
    assert send(made, "POST", path, {**body, "apiVersion": 5})[0] == 400


@pytest.mark.parametrize("body", [b"a: " + b"[" * 10**5, b"- " * 10**5, b"[" * 10**6])
@pytest.mark.parametrize(
    "media", ["application/json", "application/yaml", MERGE, STRATEGIC, JSON_PATCH, APPLY]
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_body_that_nests_for_ever_is_a_bad_request(shared, method, media, body):
    if (method == "PATCH") != ("patch" in media):
        pytest.skip("not sent so")
    path = PODS if method == "POST" else f"{PODS}/a"
    headers = {"content-type": media, "accept": "application/json"}
    query = {"fieldManager": ["m"]}
    found = answer(shared.server, HttpRequest(method, path, query, headers, body), shared.now)
    assert (found.code, found.tree["reason"]) == (400, "BadRequest"), found.tree


@pytest.fixture(scope="module")
def shared():
    return world()
