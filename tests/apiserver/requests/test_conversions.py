"""Calls of conversion webhooks, and upstream's words for answers that will not do.

The texts were read from API server 1.36.2, for the same definition and the same answers.
"""

import json

import pytest

from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.apiserver.kinds.custom.resources import resource_of
from controlplane.apiserver.requests.conversions import Conversions
from controlplane.apiserver.schema.status import ApiError
from controlplane.apiserver.storage.transactions import Reviewed
from tests.apiserver.world import World

GROUP = "conv.example.io"
NAMED = f"conversion webhook for {GROUP}/v1, Kind=Site"
URL = "https://hook.default.svc:443/convert?timeout=30s"


def version(name, field, *, storage=False, default=None):
    fields = {field: {"type": "string"}, "size": {"type": "integer"}}
    if default is not None:
        fields["size"]["default"] = default
    spec = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }


def definition(*, reviews=("v1",), client=None, storage="v1"):
    """Sites, whose `host` is called `address` in version v2."""
    service = {"service": {"name": "hook", "namespace": "default", "port": 443, "path": "/convert"}}
    names = {"kind": "Site", "plural": "sites", "singular": "site", "listKind": "SiteList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"sites.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [
                version("v1", "host", storage=storage == "v1"),
                version("v2", "address", storage=storage == "v2", default=2),
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": list(reviews),
                    "clientConfig": client or service,
                },
            },
        },
    }


def info_of(made, name="v2"):
    accepted = {**made, "status": {"acceptedNames": made["spec"]["names"]}}
    return resource_of(accepted, next(v for v in made["spec"]["versions"] if v["name"] == name))


def site(name="e", *, at="v1", **meta):
    field = "host" if at == "v1" else "address"
    meta = {"name": name, "namespace": "default", "uid": "u-1", "resourceVersion": "7", **meta}
    return {"apiVersion": f"{GROUP}/{at}", "kind": "Site", "metadata": meta, "spec": {field: "h"}}


def translated(tree, wanted):
    """Convert a site as the webhook does."""
    fields = dict(tree["spec"])
    old, new = ("host", "address") if wanted.endswith("v2") else ("address", "host")
    if old in fields:
        fields[new] = fields.pop(old)
    return {**tree, "apiVersion": wanted, "spec": fields}


def review(asked, change=None, **response):
    """The answer to a call; `change` may alter the converted object."""
    request = asked.body["request"]
    objects = [translated(tree, request["desiredAPIVersion"]) for tree in request["objects"]]
    if change is not None:
        objects = [change(tree) for tree in objects]
    head = {key: asked.body[key] for key in ("apiVersion", "kind")}
    told = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
    return {**head, "response": {**told, **response}}


def read(decide, made=None, tree=None):
    """Read a stored site as version v2: the object, and the calls that were made."""
    server = World().server
    conversions = Conversions(
        lambda host: f"webhook {host}", server.lookup, server.table, lambda: "uid-1"
    )
    steps = conversions.read(info_of(made or definition()), Object(tree or site()))
    calls = []
    try:
        asked = next(steps)
        while True:
            calls.append(asked)
            answer = decide(asked)
            asked = steps.send(answer if isinstance(answer, Reviewed) else Reviewed(answer))
    except StopIteration as end:
        return end.value.tree, calls


def refusal(decide, made=None):
    with pytest.raises(ApiError) as caught:
        read(decide, made)
    assert (caught.value.code, caught.value.reason) == (500, "")
    return caught.value.message


def test_a_call_names_the_version_wanted_and_sends_the_object_without_its_resource_version():
    tree, (asked,) = read(review)
    assert tree["spec"] == {"address": "h"}
    assert tree["metadata"]["resourceVersion"] == "7"
    assert (asked.to, asked.url) == ("webhook hook.default.svc", URL)
    assert asked.timeout_ns == 30 * 10**9
    assert asked.body == {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {
            "uid": "uid-1",
            "desiredAPIVersion": f"{GROUP}/v2",
            "objects": [
                {**site(), "metadata": {"name": "e", "namespace": "default", "uid": "u-1"}}
            ],
        },
        "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
    }


def test_an_object_that_is_stored_in_the_version_asked_for_needs_no_call():
    tree, calls = read(review, tree=site(at="v2"))
    assert calls == [] and tree["spec"] == {"address": "h", "size": 2}


def test_defaults_are_those_of_the_stored_version_and_unknown_fields_of_the_other_go():
    made = definition()
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "size"
    ]["default"] = 1
    tree, (asked,) = read(
        lambda asked: review(asked, lambda o: {**o, "spec": {**o["spec"], "nope": 1}}), made
    )
    assert asked.body["request"]["objects"][0]["spec"] == {"host": "h", "size": 1}
    assert tree["spec"] == {"address": "h", "size": 1}


@pytest.mark.parametrize(
    ("reviews", "used"), [(("v1beta1",), "v1beta1"), (("v2", "v1beta1", "v1"), "v1beta1")]
)
def test_the_first_known_review_version_is_spoken(reviews, used):
    _, (asked,) = read(review, definition(reviews=reviews))
    assert asked.body["apiVersion"] == f"apiextensions.k8s.io/{used}"


def test_a_beta_webhook_may_leave_out_the_uid():
    tree, _ = read(lambda asked: review(asked, uid=""), definition(reviews=("v1beta1",)))
    assert tree["spec"] == {"address": "h"}


def test_only_labels_and_annotations_of_the_metadata_may_change():
    def change(tree):
        meta = {**tree["metadata"], "labels": {"a": "b"}, "finalizers": ["x/y"], "generation": 77}
        return {**tree, "metadata": meta}

    tree, _ = read(
        lambda asked: review(asked, change), tree=site(labels={"l": "1"}, annotations={"n": "1"})
    )
    assert tree["metadata"]["labels"] == {"a": "b"}
    assert tree["metadata"]["annotations"] == {"n": "1"}
    assert not {"finalizers", "generation"} & set(tree["metadata"])
    gone, _ = read(
        lambda asked: review(asked, lambda o: {**o, "metadata": {**o["metadata"], "labels": None}}),
        tree=site(labels={"l": "1"}),
    )
    assert "labels" not in gone["metadata"]


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"uid": "nope"}, 'failed: expected response.uid="uid-1", got "nope"'),
        ({"uid": ""}, 'failed: expected response.uid="uid-1", got ""'),
        ({"result": {"status": "Failure", "message": "cannot do"}}, "failed: cannot do"),
        (
            {"result": {"status": "Failure"}},
            "failed: response.result.status was 'Failure', not 'Success'",
        ),
        ({"result": {}}, "failed: response.result.status was '', not 'Success'"),
        ({"convertedObjects": []}, "returned 0 objects, expected 1"),
        ({"convertedObjects": [{}, {}]}, "returned 2 objects, expected 1"),
    ],
)
def test_refused_responses(response, text):
    assert refusal(lambda asked: review(asked, **response)) == f"{NAMED} {text}"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"response": None}, "no response provided"),
        (
            {"kind": "Other"},
            'no kind "Other" is registered for version "apiextensions.k8s.io/v1" in '
            'scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71"',
        ),
        (
            {"apiVersion": "foo/v1"},
            'no kind "ConversionReview" is registered for version "foo/v1" in '
            'scheme "k8s.io/apiserver/pkg/util/webhook/client.go:71"',
        ),
        (
            {"apiVersion": "apiextensions.k8s.io/v1beta1"},
            "converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        ),
        (
            {"apiVersion": "", "kind": ""},
            "expected webhook response of apiextensions.k8s.io/v1, "
            "Kind=ConversionReview, got /, Kind=",
        ),
    ],
)
def test_refused_answers(answer, text):
    told = refusal(lambda asked: {**review(asked), **answer})
    assert told == f"{NAMED} failed: {text}"


@pytest.mark.parametrize(("answer", "kind"), [([1], "array"), ("hello", "string"), (1, "number")])
def test_an_answer_that_is_no_object(answer, kind):
    assert refusal(lambda _: answer).startswith(
        f"{NAMED} failed: couldn't get version/kind; json parse error: json: cannot unmarshal {kind} "
        "into Go value of type struct"
    )


def of_object(**changes):
    return lambda asked: review(asked, lambda tree: {**tree, **changes})


def of_meta(**changes):
    return lambda asked: review(
        asked, lambda tree: {**tree, "metadata": {**tree["metadata"], **changes}}
    )


INVALID = f"{NAMED} returned invalid"


@pytest.mark.parametrize(
    ("decide", "text"),
    [
        (
            of_object(apiVersion=""),
            f"{INVALID} object at index 0: invalid groupVersion "
            "(expected conv.example.io/v2, received )",
        ),
        (
            of_object(apiVersion=f"{GROUP}/v3"),
            f"{INVALID} object at index 0: invalid groupVersion "
            "(expected conv.example.io/v2, received conv.example.io/v3)",
        ),
        (
            of_object(kind="Foo"),
            f"{INVALID} object at index 0: invalid kind (expected Site, received Foo)",
        ),
        (of_meta(name="f"), f"{INVALID} object: must have the same name: e != f"),
        (of_meta(namespace="f"), f"{INVALID} object: must have the same namespace: default != f"),
        (of_meta(uid="f"), f"{INVALID} object: must have the same UID: u-1 != f"),
        (of_object(metadata="a"), f"{INVALID} object: must have the same name: e != "),
        (
            of_meta(labels=["a"]),
            f"{INVALID} metadata: invalid metadata.labels of type []interface {{}} in converted object",
        ),
        (
            of_meta(labels={"a": 1}),
            f"{INVALID} metadata: metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (
            of_meta(labels={"a": 1.5}),
            f"{INVALID} metadata: metadata.labels[a] must be a string, but is float64 in converted object",
        ),
        (
            of_meta(annotations={"a": None}),
            f"{INVALID} metadata: metadata.annotations[a] must be a "
            "string, but is <nil> in converted object",
        ),
        (lambda asked: review(asked, convertedObjects=[None]), "unexpected end of JSON input"),
        (
            lambda asked: review(asked, convertedObjects=["x"]),
            "json: cannot unmarshal string into Go value of type map[string]interface {}",
        ),
        (
            lambda asked: review(asked, convertedObjects=[{"apiVersion": "a/v1"}]),
            "Object 'Kind' is missing in '{\"apiVersion\":\"a/v1\"}'",
        ),
    ],
)
def test_refused_objects(decide, text):
    assert refusal(decide) == text


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        (
            {"labels": {"a b": "c d"}},
            f'{INVALID} metadata: [metadata.labels: Invalid value: "a b": ',
        ),
        (
            {"annotations": {"a b": "x"}},
            f'{INVALID} metadata: metadata.annotation: Invalid value: "a b": ',
        ),
    ],
)
def test_changed_labels_and_annotations_are_validated(changes, start):
    assert refusal(of_meta(**changes)).startswith(start)


def test_a_call_that_failed_names_the_address_unless_the_server_answered_with_an_error():
    text = f'{NAMED} failed: Post "{URL}": context deadline exceeded'
    assert refusal(lambda _: Reviewed(None, "context deadline exceeded")) == text
    plain = Reviewed(None, "the server could not find the requested resource", plain=True)
    assert refusal(lambda _: plain) == f"{NAMED} failed: {plain.error}"


# -- over the store ------------------------------------------------------------------------------


def served(made):
    world = World()
    found = world.create(
        "customresourcedefinitions", made, group="apiextensions.k8s.io", namespace=""
    )
    assert found.code == 201, found.tree
    return world


def ask(world, verb, at, name="", body=None, **more):
    request = Request(verb, GROUP, at, "sites", namespace="default", name=name, body=body, **more)
    return world.server.handle(request, world.now)


def fresh(at="v1", name="e"):
    tree = site(name, at=at)
    return {**tree, "metadata": {"name": name}}


def test_a_definition_without_a_webhook_to_answer_serves_its_storage_version_alone():
    world = served(definition())
    assert ask(world, "create", "v1", body=fresh()).code == 201
    assert ask(world, "get", "v1", "e").tree["spec"] == {"host": "h"}
    text = f'{NAMED} failed: Post "{URL}": service "hook" not found'
    for found in (
        ask(world, "get", "v2", "e"),
        ask(world, "delete", "v2", "e"),
        ask(world, "get", "v2", "e", subresource="status"),
    ):
        assert (found.code, found.tree["message"]) == (500, text)
        assert "reason" not in found.tree
    made = ask(world, "create", "v2", body=fresh("v2", "n"))
    assert (made.code, made.tree["message"]) == (500, text.replace("/v1,", "/v2,"))
    assert ask(world, "get", "v2", "absent").code == 404
    assert ask(world, "list", "v1").code == 200


def test_a_dry_run_converts_as_a_write_does():
    world = served(definition())
    text = f'conversion webhook for {GROUP}/v2, Kind=Site failed: Post "{URL}": service "hook" not found'
    made = ask(world, "create", "v2", body=fresh("v2", "n"), query={"dryRun": "All"})
    assert (made.code, made.tree["message"]) == (500, text)
    assert ask(world, "create", "v1", body=fresh(), query={"dryRun": "All"}).code == 201
    assert ask(world, "list", "v1").tree["items"] == []


def test_why_a_webhook_is_not_reached():
    world = served(definition(client={"url": "https://127.0.0.1:1/convert"}))
    ask(world, "create", "v1", body=fresh())
    assert ask(world, "get", "v2", "e").tree["message"] == (
        f'{NAMED} failed: Post "https://127.0.0.1:1/convert?timeout=30s": dial tcp 127.0.0.1:1: '
        "connect: connection refused"
    )


def test_a_write_that_changes_nothing_stores_the_object_in_the_new_storage_version():
    world = served(definition())
    ask(world, "create", "v1", body=fresh())
    crds = {"group": "apiextensions.k8s.io", "namespace": ""}
    found = world.do("get", "customresourcedefinitions", f"sites.{GROUP}", **crds).tree
    live = json.loads(json.dumps(found))
    for each in live["spec"]["versions"]:
        each["storage"] = not each["storage"]
    live["spec"]["conversion"] = {"strategy": "None"}
    moved = world.do("update", "customresourcedefinitions", f"sites.{GROUP}", body=live, **crds)
    assert moved.tree["status"]["storedVersions"] == ["v1", "v2"]
    before = ask(world, "get", "v1", "e").tree
    after = ask(world, "update", "v1", "e", body=before).tree
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
