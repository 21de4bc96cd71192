"""OpenAPI documents of groups of custom resources: the case's definitions are created, then its path is asked for."""

from __future__ import annotations

import json
from typing import Any

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer
from controlplane.apiserver.front.answering import answer as serve
from controlplane.apiserver.http.answer_bodies import encoded
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.requests.server import ApiServer
from tests.golden.answer_crud import START, Replay
from tests.golden.runner import difference

Json = Any
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _ask(server: ApiServer, method: str, path: str, body: Json = None) -> HttpAnswer:
    headers = {"accept": "application/json", "content-type": "application/json"}
    raw = b"" if body is None else json.dumps(body).encode()
    found = serve(server, HttpRequest(method, path, {}, headers, raw, ADMIN), START)
    assert isinstance(found, HttpAnswer)
    return found


def answer(case: Json) -> Json:
    """The document as it is sent, with sorted keys; definitions that are refused are left out, as they were."""
    server = Replay(case).server
    for definition in case["crds"]:
        _ask(server, "POST", _DEFINITIONS, definition)
        server.advance()
    server.settle(START)
    found = _ask(server, "GET", case["path"])
    return json.loads(b"".join(encoded(found, pretty=False)))


def compare(want: Json, got: Json) -> str | None:
    """None if the documents are equal to the byte once their keys are sorted."""
    texts = [json.dumps(tree, sort_keys=True) for tree in (want["document"], got)]
    if texts[0] == texts[1]:
        return None
    return difference(want["document"], got) or "numbers are written differently"
