"""Requests made from a seed: nothing that upstream would not answer, nothing lost, and what fails is made small."""

import json
from random import Random

import pytest
from attrs import evolve

from tests.chaos.fuzz import replay, standing, traffic
from tests.chaos.fuzz.campaign import episode, main
from tests.chaos.fuzz.messages import Message, place_of, resource_of
from tests.chaos.fuzz.process import Process, run
from tests.chaos.fuzz.shrinking import Shrinking, as_test

CORE = "/api/v1/namespaces/default"
MAPS = f"{CORE}/configmaps"


@pytest.mark.slow
def test_the_same_seed_stands_for_the_same_requests():
    first, again = traffic.requests(7, 3), traffic.requests(7, 3)
    assert first == again
    assert first != traffic.requests(7, 4)
    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} <= {each.method for each in first}


@pytest.mark.parametrize("number", [0, 4])  # the second has a store in a file
def test_some_requests(number):
    assert episode(0, number, 300).findings == []


@pytest.mark.nightly  # twenty thousand requests
def test_more_requests(capsys):
    assert main(["--requests", "20000", "--seed", "1"]) == 0, capsys.readouterr().out


def test_places_of_paths():
    assert place_of(f"{CORE}/pods/a/log") == f"{CORE}/pods/a"
    assert place_of(f"{CORE}/pods") == place_of("/version") == place_of("/api/v1/nodes") == ""
    assert place_of("/api/v1/namespaces/a/finalize") == "/api/v1/namespaces/a"
    assert resource_of("/apis/apps/v1/namespaces/a/deployments/d/scale") == "apps/deployments/scale"


# -- that it finds ---------------------------------------------------------------------------------


TWO = [
    Message(method, target, (("content-type", "application/json"),), body)
    for method, target, body in (
        ("GET", "/version", b""),
        ("POST", MAPS, b'{"metadata": {"name": "m"}, "data": {"a": "b", "c": "d"}}'),
        ("POST", MAPS, b'{"metadata": {"name": "n"}}'),
        ("GET", f"{MAPS}/m?pretty=1&limit=3", b""),
    )
]
ANSWER = Process._answer


def kinds(findings):
    return [(each.kind, each.text) for each in findings]


def findings_when(monkeypatch, spoil):
    """What is found when `spoil` may change what is answered to a message."""
    monkeypatch.setattr(Process, "_answer", lambda *given: spoil(*given, ANSWER(*given)))
    return run(TWO)[1]


def test_an_exception_is_found_and_made_small(monkeypatch):
    def fail(process, message, answered):
        if message.method == "GET" and "pretty" in message.target:
            assert process.get(f"{MAPS}/n").code == 404, "two"
        return answered

    (found,) = findings_when(monkeypatch, fail)
    assert (found.kind, found.text[:14]) == ("exception", "AssertionError")
    small = Shrinking(found, durable=False).shrunk(TWO)
    assert [(each.method, each.target) for each in small] == [
        ("POST", MAPS),
        ("GET", f"{MAPS}/m?pretty=1"),
    ]
    assert "assert replay([" in as_test(small, found)


def test_a_write_that_is_lost_is_found(monkeypatch):
    def lose(process, message, answered):
        if message.method == "POST" and message.target == MAPS:
            return evolve(answered, tree={**answered.tree, "data": {"other": "data"}})
        return answered

    found = findings_when(monkeypatch, lose)
    assert kinds(found) == [("register", "another object is served: ConfigMap")] * 2


def test_a_refused_request_that_writes_is_found(monkeypatch):
    def refuse(process, message, answered):
        return (
            evolve(answered, code=409)
            if message.method == "POST" and message.target == MAPS
            else answered
        )

    found = findings_when(monkeypatch, refuse)
    assert ("register", "a refused request wrote to /configmaps") in kinds(found)


def test_a_failure_that_upstream_does_not_give_is_found(monkeypatch):
    def fail(process, message, answered):
        return evolve(answered, code=500) if message.target == "/version" else answered

    assert "5xx" in [kind for kind, _ in kinds(findings_when(monkeypatch, fail))]


def test_news_that_a_watch_does_not_tell_is_found(monkeypatch):
    opened = Message("GET", f"{MAPS}?watch=1")
    process = Process()
    process.send(opened)
    monkeypatch.setattr(Process, "_read", lambda *_: [])
    process.send(TWO[1])
    assert kinds(process.findings) == [("watch", "events are missing")]


# -- what was found --------------------------------------------------------------------------------


def test_texts_within_objects_in_protobuf_are_as_compact_as_they_came():
    body = (
        b'k8s\x00\n#\n\x12resource.k8s.io/v1\x12\rResourceClaim\x12\x8d\x01\n\x11\n\x01x\x12\x00\x1a\x00"\x00*\x002'
        b"\x008\x00B\x00\x12x\nv\n=\n\x01r\x128\n\x02dc\x12$\n\"\n device.attributes['d.io'].x == 1\x1a\nExactCount"
        b" \x02\n\x0c\n\x01s\x1a\x07\n\x01a\x12\x02dc\x12\x0b\n\x01r\x12\x06d.io/x\x1a\x1a\n\x01r\x12\x15\n\x13\n\x04"
        b'd.io\x12\x0b\n\t{"k":"v"}'
    )
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    media = "application/vnd.kubernetes.protobuf"
    process = Process()
    process.send(Message("POST", claims, (("content-type", media),), body))
    told = process.get(f"{claims}/x").tree
    again = process.send(Message("POST", claims, (("content-type", media),), body))
    assert again is not None and again.code == 409
    parameters = process.store.keyspace("/registry/resourceclaims/").get("default/x").object.tree
    config = parameters["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    assert type(config) is dict
    assert told["spec"]["devices"]["config"][0]["opaque"]["parameters"] == {"k": "v"}
    assert replay([("POST", claims, {"content-type": media}, body)], durable=True) == []


HUGE = ("1e400", "-1e400", "9" * 400)
THING = "/apis/x.io/v1/namespaces/default/things"


@pytest.mark.parametrize("number", HUGE, ids=lambda text: text[:6])
def test_numbers_that_no_float_holds_are_refused(number):
    process = Process()
    told = f"json: cannot unmarshal number {number} into Go value of type float64"
    kind = b'"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "h"}'
    for method, target, media, body, code in (
        (
            "POST",
            THING,
            "application/json",
            b"{%s, %s}" % (kind, b'"spec": {"any": {"a": [N]}}'),
            400,
        ),
        (
            "PATCH",
            f"{THING}/o",
            "application/merge-patch+json",
            b'{"spec": {"any": {"a": N}}}',
            422,
        ),
        (
            "PATCH",
            f"{THING}/o",
            "application/json-patch+json",
            b'[{"op": "add", "path": "/spec/any", "value": {"a": N}}]',
            422,
        ),
        (
            "PATCH",
            f"{CORE}/pods/a",
            "application/strategic-merge-patch+json",
            b'{"spec": {"x": N}}',
            400,
        ),
    ):
        raw = body.replace(b"N", number.encode())
        found = process.send(Message(method, target, (("content-type", media),), raw))
        assert found is not None, process.findings
        assert (found.code, told in found.tree["message"]) == (code, True), found.tree["message"][
            -300:
        ]
    assert process.findings == process.end() == []


SCHEMA_OR = {
    ("items", b'"x"'): "spec.versions[0].schema.openAPIV3Schema",
    ("items", b"[3]"): "of type v1.JSONSchemaProps",
    ("additionalProperties", b"3"): "boolean or JSON schema expected",
}


@pytest.mark.parametrize(("key", "value"), SCHEMA_OR)
def test_what_may_be_a_schema_or_something_else_is_neither(key, value):
    body = b'{"spec": {"versions": [{"schema": {"openAPIV3Schema": {"type": "array", "%s": %s}}}]}}'
    process = Process()
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    found = process.send(Message("POST", definitions, (), body % (key.encode(), value)))
    assert found is not None, process.findings
    assert found.code in (400, 422)
    assert SCHEMA_OR[key, value] in found.tree["message"] or found.code == 422


@pytest.mark.parametrize("key", ["items", "additionalProperties"])
def test_a_part_of_a_schema_that_is_none_is_refused(key):
    body = b'{"spec": {"versions": [{"schema": {"openAPIV3Schema": {"%s": {"properties": {"a": 7}}}}}]}}'
    process = Process()
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    found = process.send(Message("POST", definitions, (), body % key.encode()))
    assert found is not None, process.findings
    where = f"JSONSchemaProps.spec.versions.schema.openAPIV3Schema.{key}.properties"
    assert found.tree["message"].endswith(
        f"json: cannot unmarshal number into Go struct field {where} of type v1.JSONSchemaProps"
    )


@pytest.mark.slow  # two processes are started, one after the other
def test_some_requests_over_http(capsys):
    assert main(["--requests", "1500", "--seed", "2", "--http"]) == 0, capsys.readouterr().out


def test_numbers_of_custom_objects_are_answered_as_go_writes_them():
    body = (
        b'{"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": "f"}, "spec": {"any": '
        b'{"a": [1.0, 1e5, 1.50, -3.0, 12345678901234567890, 1e21, true, 7]}}}'
    )
    process = Process()
    made = process.send(Message("POST", THING, (), body))
    assert b'{"a":[1,100000,1.5,-3,12345678901234567000,1e+21,true,7]}' in made.body
    shown = process.send(Message("GET", f"{THING}/f", (("accept", "application/yaml"),)))
    assert b"- 1\n    - 100000\n    - 1.5\n    - -3\n" in shown.body, shown.body
    assert process.findings == process.end() == []


@pytest.mark.parametrize("more", ["", ', "ephemeralContainers": [{"name": "e", "image": "i"}]'])
def test_a_template_without_containers_is_refused(more):
    spec = '{"restartPolicy": "Never"' + more + "}"
    body = '{"metadata": {"name": "j"}, "spec": {"template": {"spec": ' + spec + "}}}"
    process = Process()
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    found = process.send(Message("POST", jobs, (), body.encode()))
    assert found is not None, process.findings
    assert "spec.template.spec.containers: Required value" in found.tree["message"]


def test_bookmarks_are_rows_without_a_name():
    query = (
        "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    )
    process = Process()
    accept = ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
    for each in traffic.served():
        if "watch" in each.verbs:
            path = each.path("default")
            found = process.send(Message("GET", f"{path}?{query}", (accept,)))
            assert (found and found.code, process.findings) == (200, []), path


@pytest.mark.parametrize("method", ["DELETE", "POST", "PUT", "PATCH"])
def test_a_path_that_watches_takes_no_writes(method):
    pods = "/api/v1/watch/namespaces/default/pods"
    assert replay([(method, pods, {"content-type": "application/json"}, b"{}")]) == []


@pytest.mark.slow
def test_what_is_rarely_reached_is_answered_with_success():
    reached = set()
    for seed in range(30):
        process = Process()
        for method, path, media, body, more in standing.steps(Random(seed), "default"):
            if "node-0" in str(body):
                body["spec"]["nodeName"] = "n"  # that of a server that is served
            headers = {"accept": "application/json", "content-type": media, **more}
            raw = b"" if body is None else json.dumps(body).encode()
            answered = process.send(Message(method, path, tuple(headers.items()), raw))
            assert answered is not None
            assert answered.code < 300, (method, path, answered.tree)
            reached.add(resource_of(path.partition("?")[0]))
        assert process.findings == []
    assert reached >= {
        "/pods/exec",
        "/pods/attach",
        "/pods/portforward",
        "/pods/log",
        "/pods/ephemeralcontainers",
        "apiextensions.k8s.io/customresourcedefinitions/status",
        "apiregistration.k8s.io/apiservices/status",
        "apps/replicasets/scale",
        "admissionregistration.k8s.io/validatingadmissionpolicies/status",
        "certificates.k8s.io/certificatesigningrequests/approval",
        "certificates.k8s.io/certificatesigningrequests/status",
    }
