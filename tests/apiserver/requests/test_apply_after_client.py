"""kubectl's server-side apply takes over what its client-side apply noted, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.api.request import ADMIN
from controlplane.apiserver.front.answering import HttpAnswer, answer
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.requests.server import ApiServer

PATH = "/api/v1/namespaces/default/configmaps"
NOTE = "kubectl.kubernetes.io/last-applied-configuration"


class Server:
    def __init__(self) -> None:
        serials = iter(range(1 << 30))
        self.core = ApiServer(
            uid=lambda: f"uid-{next(serials)}",
            suffix=lambda: "abcde",
            options=ServerOptions(track_fields=True, auto_namespaces=True),
        )
        self.now = 0

    def ask(self, method: str, path: str, body: Any, media: str, **query: str) -> HttpAnswer:
        self.now += 1_000_000_000
        http = HttpRequest(
            method,
            path,
            {key: [value] for key, value in query.items()},
            {"content-type": media},
            json.dumps(body).encode(),
            ADMIN,
        )
        found = answer(self.core, http, self.now)
        assert isinstance(found, HttpAnswer)
        return found


def config(note: bool, **data: str) -> dict[str, Any]:
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": data}
    if not note:
        return plain
    noted = {**plain, "metadata": {"annotations": {}, "name": "m", "namespace": "default"}}
    return {**plain, "metadata": {"name": "m", "annotations": {NOTE: json.dumps(noted)}}}


@pytest.fixture
def server() -> Server:
    found = Server()
    made = found.ask(
        "POST",
        PATH,
        config(True, a="1", b="1"),
        "application/json",
        fieldManager="kubectl-client-side-apply",
    )
    assert made.code == 201
    return found


def applied(server: Server, manager: str, **data: str) -> HttpAnswer:
    return server.ask(
        "PATCH",
        f"{PATH}/m",
        config(False, **data),
        "application/apply-patch+yaml",
        fieldManager=manager,
    )


def test_kubectl_takes_over_what_it_noted(server: Server) -> None:
    found = applied(server, "kubectl", a="2", b="1")
    assert (found.code, found.tree["data"]) == (200, {"a": "2", "b": "1"})
    owners = {
        entry["manager"]: entry["fieldsV1"] for entry in found.tree["metadata"]["managedFields"]
    }
    assert "f:a" in owners["kubectl"]["f:data"]
    assert "f:a" not in owners["kubectl-client-side-apply"]["f:data"]
    assert json.loads(found.tree["metadata"]["annotations"][NOTE])["data"]["a"] == "2"


def test_another_manager_conflicts(server: Server) -> None:
    found = applied(server, "operator", a="2")
    assert found.code == 409
    assert 'conflict with "kubectl-client-side-apply" using v1: .data.a' in found.tree["message"]


def test_what_a_client_changed_since_is_not_taken_over(server: Server) -> None:
    server.ask(
        "PATCH",
        f"{PATH}/m",
        {"data": {"b": "changed"}},
        "application/merge-patch+json",
        fieldManager="editor",
    )
    found = applied(server, "kubectl", a="2", b="2")
    assert found.code == 409
    assert found.tree["message"] == (
        'Apply failed with 1 conflict: conflict with "editor" using v1: .data.b'
    )


@pytest.mark.parametrize("note", ["", "no JSON", '{"apiVersion":"v2","kind":"ConfigMap"}', "[]"])
def test_a_note_that_cannot_be_read_takes_nothing_over(server: Server, note: str) -> None:
    server.ask(
        "PATCH",
        f"{PATH}/m",
        {"metadata": {"annotations": {NOTE: note}}},
        "application/merge-patch+json",
        fieldManager="editor",
    )
    assert applied(server, "kubectl", a="2").code == 409
