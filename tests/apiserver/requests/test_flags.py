"""Booleans in queries mean the same for authorization, for routing and for what is done."""

from __future__ import annotations

import pytest

from controlplane.api.flags import flag
from controlplane.apiserver.requests.authorization.rbac import attributes_of
from controlplane.apiserver.requests.routing import HttpRequest, to_request
from tests.apiserver.world import World

TEXTS = [
    ("false", False),
    ("False", False),
    ("FALSE", False),
    ("0", False),
    ("true", True),
    ("1", True),
    ("", True),
    ("no", True),
    ("00", True),
    ("f", True),
]


@pytest.mark.parametrize(("text", "expected"), [*TEXTS, (None, False)])
def test_only_absence_zero_and_false_are_no(text: str | None, expected: bool) -> None:
    assert flag(text) is expected


@pytest.mark.parametrize(("text", "watches"), TEXTS)
def test_a_request_is_authorized_as_what_it_does(text: str, watches: bool) -> None:
    path = "/api/v1/namespaces/default/pods"
    http = HttpRequest("GET", path, {"watch": [text]})
    expected = "watch" if watches else "list"
    assert attributes_of(http).verb == expected
    assert to_request(World().server.table, http, http.target).verb == expected
