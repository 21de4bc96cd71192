"""Paths, methods and parameters are judged as the routes of upstream's servers judge them."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.requests.routing import HttpRequest, parse_path
from tests.apiserver.world import World

MAPS = "/api/v1/namespaces/default/configmaps"


def asked(world: World, method: str, path: str, **query: str) -> HttpAnswer:
    """The answer to a request without a body."""
    found = {name: [value] for name, value in query.items()}
    http = HttpRequest(method, path, found, {"accept": "application/json"}, b"", ADMIN)
    answered = answer(world.server, http, world.now)
    assert isinstance(answered, HttpAnswer)
    return answered


def text(answered: HttpAnswer) -> Any:
    """The body as it is compared."""
    tree = answered.tree
    return tree["message"] if isinstance(tree, dict) and "message" in tree else answered.text


NOT_FOUND = "404 page not found\n"
NO_RESOURCE = "the server could not find the requested resource"
NO_METHOD = "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    ("method", "path", "code", "expected"),
    [
        ("GET", "//api/v1/pods", 404, NOT_FOUND),
        ("GET", "/api//v1/pods", 404, NO_RESOURCE),
        ("GET", f"{MAPS}/", 200, None),
        ("GET", "/api/v1/namespaces/default//configmaps/a", 404, NO_RESOURCE),
        ("GET", "/api/v1/namespaces//configmaps", 200, None),
        ("GET", f"{MAPS}/a/b", 404, NO_RESOURCE),
        ("FOO", f"{MAPS}/a/b", 404, NO_RESOURCE),
        ("FOO", MAPS, 405, NO_METHOD),
        ("HEAD", MAPS, 405, ""),
        ("HEAD", f"{MAPS}/a/b", 404, ""),
        ("PUT", "/api", 405, NO_METHOD),
        ("PUT", "/apis", 200, None),
        ("HEAD", "/version", 405, None),
        ("GET", "/version/", 200, None),
        ("POST", "/healthz", 200, "ok"),
        ("GET", "/healthz/", 404, NOT_FOUND),
        ("GET", "/livez/etcd", 200, "ok"),
        ("GET", "/readyz/zz", 404, NOT_FOUND),
        ("GET", "/openapi/v3/nope", 404, ""),
        ("GET", "/apis/apps/v1/", 200, None),
        ("GET", "/apis/apps/v9", 404, NO_RESOURCE),
        ("GET", "/apis/none/v1", 404, NOT_FOUND),
        ("GET", "/index.html", 200, None),
    ],
)
def test_paths_and_methods(method: str, path: str, code: int, expected: str | None) -> None:
    found = asked(World(), method, path)
    assert found.code == code
    if expected is not None:
        assert text(found) == expected


def test_a_verbose_check_tells_what_is_excluded() -> None:
    world = World()
    http = HttpRequest(
        "GET", "/livez", {"verbose": [""], "exclude": ["etcd", "zz"]}, {}, b"", ADMIN
    )
    found = answer(world.server, http, 0)
    assert isinstance(found, HttpAnswer) and found.text is not None
    lines = found.text.splitlines()
    assert "[+]etcd excluded: ok" in lines and "[+]ping ok" in lines
    assert lines[-2:] == [
        'warn: some health checks cannot be excluded: no matches for "zz"',
        "livez check passed",
    ]


@pytest.mark.parametrize("path", [MAPS, "/apis/apps", "/livez", "/zz"])
def test_a_malformed_time_limit_is_refused_everywhere(path: str) -> None:
    found = asked(World(), "GET", path, timeout="1")
    assert found.code == 400
    assert text(found) == (
        'invalid timeout specified in the request URL - time: missing unit in duration "1"'
    )


def test_a_watch_has_no_such_time_limit() -> None:
    world = World()
    query = {"watch": ["1"], "timeout": ["x"]}
    http = HttpRequest("GET", MAPS, query, {"accept": "application/json"}, b"", ADMIN)
    assert not isinstance(answer(world.server, http, world.now), HttpAnswer)


def test_preconditions_of_a_deletion_may_stand_in_the_query() -> None:
    world = World()
    body = b'{"metadata":{"name":"a"}}'
    http = HttpRequest("POST", MAPS, {}, {"content-type": "application/json"}, body, ADMIN)
    made = answer(world.server, http, world.now)
    assert isinstance(made, HttpAnswer) and made.code == 201
    assert asked(world, "DELETE", f"{MAPS}/a", uid="x").code == 409
    assert asked(world, "DELETE", f"{MAPS}/a", resourceVersion="1").code == 409
    assert asked(world, "DELETE", f"{MAPS}/a", propagationPolicy="").code == 422
    assert asked(world, "DELETE", f"{MAPS}/a", gracePeriodSeconds="").code == 400
    assert asked(world, "DELETE", f"{MAPS}/a", uid=made.tree["metadata"]["uid"]).code == 200


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces//configmaps/a", 400),
        ("DELETE", "/api/v1/namespaces//configmaps/a", 400),
        ("HEAD", "/api/v1/namespaces//configmaps/a", 405),
        ("TRACE", "/api/v1/namespaces//configmaps/a", 405),
        ("GET", "/api/v1/namespaces//configmaps", 200),
        ("GET", "/api/v1/configmaps/a", 404),
    ],
)
def test_an_empty_namespace_is_a_parameter_that_lacks(method: str, path: str, code: int) -> None:
    found = asked(World(), method, path)
    assert found.code == code
    if code == 400:
        assert text(found) == "Namespace parameter required."


def test_old_proxy_paths_are_of_no_route() -> None:
    target = parse_path("/api/v1/proxy/nodes/a/b")
    assert target is not None
    assert (target.resource, target.name, target.subresource) == ("nodes", "a", "")
    assert target.proxied and not target.routed
    assert asked(World(), "GET", "/api/v1/proxy/nodes/a").code == 404
    assert asked(World(), "GET", "/api/v1/proxy").code == 500


def accepted(method: str, path: str, accept: str) -> HttpAnswer:
    world = World()
    found = answer(world.server, HttpRequest(method, path, {}, {"accept": accept}, b"", ADMIN), 0)
    assert isinstance(found, HttpAnswer)
    return found


def test_head_answers_in_the_media_type_of_its_errors() -> None:
    media = "application/vnd.kubernetes.protobuf"
    assert accepted("HEAD", "/api/v1/zz", media).headers["Content-Type"] == media


def test_connections_take_any_media_type() -> None:
    assert accepted("GET", "/api/v1/namespaces/default/services/a/proxy", "a").code == 404


def test_only_proxies_have_paths_behind_them() -> None:
    pods = "/api/v1/namespaces/default/pods"
    assert text(asked(World(), "POST", f"{pods}/a/exec/x")) == NO_RESOURCE
    assert text(asked(World(), "GET", f"{pods}/a/proxy/x")) == 'pods "a" not found'


def test_deletions_choose_the_form_of_their_answer_before_they_read() -> None:
    world = World()
    headers = {"accept": "application/xml", "content-type": "application/json"}
    found = answer(world.server, HttpRequest("DELETE", MAPS, {}, headers, b"{", ADMIN), 0)
    assert isinstance(found, HttpAnswer) and found.code == 406
