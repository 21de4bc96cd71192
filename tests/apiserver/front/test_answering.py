import json

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, WatchAnswer, answer
from controlplane.apiserver.requests.routing import HttpRequest, parse_path
from tests.apiserver.world import World, pod


def ask(world, method, path, body=None, *, raw=b"", accept="application/json", **query):
    headers = {"accept": accept, "content-type": "application/json", "user-agent": "test/1"}
    if body is not None:
        raw = json.dumps(body).encode()
    values = {key: [value] for key, value in query.items()}
    found = answer(world.server, HttpRequest(method, path, values, headers, raw, ADMIN), world.now)
    world.server.advance()
    return found


def test_paths_name_resources_objects_and_subresources():
    target = parse_path("/apis/apps/v1/namespaces/n/deployments/d/scale")
    assert (target.group, target.version, target.namespace) == ("apps", "v1", "n")
    assert (target.resource, target.name, target.subresource) == ("deployments", "d", "scale")
    assert parse_path("/api/v1/nodes").resource == "nodes"
    assert parse_path("/healthz") is None


def test_requests_in_json_get_answers_in_json():
    world = World()
    made = ask(world, "POST", "/api/v1/namespaces/default/pods", pod("a"))
    assert (made.code, made.headers["Content-Type"]) == (201, "application/json")
    found = ask(world, "GET", "/api/v1/namespaces/default/pods")
    assert found.tree["kind"] == "PodList"
    assert "kind" not in found.tree["items"][0]


def test_a_watch_answer_is_a_stream():
    world = World()
    found = ask(world, "GET", "/api/v1/pods", watch="true", timeoutSeconds="5")
    assert isinstance(found, WatchAnswer) and found.seconds == 5
    ask(world, "POST", "/api/v1/namespaces/default/pods", pod("a"))
    (event,) = found.watcher.drain()
    assert found.render(world.server, event, world.now)["type"] == "ADDED"


def test_tables_are_made_on_request():
    world = World()
    ask(world, "POST", "/api/v1/namespaces/default/pods", pod("a"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = ask(world, "GET", "/api/v1/namespaces/default/pods", accept=accept).tree
    assert [column["name"] for column in table["columnDefinitions"]][:3] == [
        "Name",
        "Ready",
        "Status",
    ]
    assert table["rows"][0]["cells"][:3] == ["a", "0/1", "Pending"]


def test_broken_bodies_are_bad_requests():
    found = ask(World(), "POST", "/api/v1/namespaces/default/pods", raw=b"{")
    assert found.code == 400


def test_unknown_fields_warn_or_fail():
    world = World()
    path = "/api/v1/namespaces/default/pods"
    body = {**pod("a"), "bogus": 1}
    assert ask(world, "POST", path, body).headers["Warning"] == [
        '299 - "unknown field \\"bogus\\""'
    ]
    strict = ask(world, "POST", path, {**body, "metadata": {"name": "b"}}, fieldValidation="Strict")
    assert strict.code == 400 and 'unknown field "bogus"' in strict.tree["message"]


def test_discovery_lists_groups_and_resources():
    world = World()
    assert ask(world, "GET", "/api").tree["versions"] == ["v1"]
    groups = {group["name"] for group in ask(world, "GET", "/apis").tree["groups"]}
    assert {"apps", "batch", "policy"} <= groups
    names = {r["name"] for r in ask(world, "GET", "/api/v1").tree["resources"]}
    assert {"pods", "pods/binding", "nodes/status"} <= names


def test_paths_that_nothing_serves_are_plain_404():
    found = ask(World(), "GET", "/apis/none.example.com/v1/things")
    assert isinstance(found, HttpAnswer)
    assert (found.code, found.text) == (404, "404 page not found\n")
