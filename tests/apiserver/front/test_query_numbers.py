"""Numbers in queries are read as Go reads them."""

import pytest

from controlplane.api.request import ADMIN
from controlplane.api.validation import quote
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.requests.listing import parse_version
from controlplane.apiserver.requests.routing import HttpRequest
from tests.apiserver.world import World

PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize("name", ["limit", "timeoutSeconds"])
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("--1", "invalid syntax"),
        ("\u0661", "invalid syntax"),
        ("\u00b2", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("1_0", "invalid syntax"),
        ("-", "invalid syntax"),
        ("9223372036854775808", "value out of range"),
        ("9" * 5000, "value out of range"),
        ("-9223372036854775809", "value out of range"),
        ("", "invalid syntax"),
        ("0", None),
        ("-1", None),
        ("+7", None),
        ("0" * 5000 + "7", None),
        ("9223372036854775807", None),
    ],
)
def test_numbers(name, text, problem):
    world = World()
    http = HttpRequest("GET", PODS, {name: [text]}, {"accept": "application/json"}, b"", ADMIN)
    found = answer(world.server, http, world.now)
    assert isinstance(found, HttpAnswer)
    if problem is None:
        assert found.code == 200
    else:
        assert found.code == 400
        assert found.tree["message"] == f"strconv.ParseInt: parsing {quote(text)}: {problem}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x", "invalid syntax"),
        ("\u0661", "invalid syntax"),
        (str(2**64), "value out of range"),
        ("9" * 5000, "value out of range"),
    ],
)
def test_versions(text, problem):
    with pytest.raises(ValueError, match=problem):
        parse_version(text)
    assert parse_version(str(2**64 - 1)) == 2**64 - 1
    assert parse_version("") == 0
