"""From where requests are answered: addresses and names of this machine, and no page of somebody else."""

from __future__ import annotations

import pytest

from controlplane.apiserver.http.origin import is_local, refusal
from tests.apiserver.http.session import CONFIGMAPS, PODS, config, served

ADMIN = {"Authorization": "Bearer secret"}
TIME = "/controlplane/time"


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1",
        "127.0.0.1:6443",
        "[::1]:6443",
        "localhost:80",
        "LOCALHOST",
        "a.localhost",
        "box",
        "10.0.0.7",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local:443",
        "serve.example.com",
    ],
)
def test_names_that_cannot_be_taken_are_ours(host):
    assert refusal(host, "", "serve.example.com", anybody=True) == ""


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:6443",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "1.2.3",
        "svc.evil",
        "127.0.0.1.nip.io",
        "evil.example.",
    ],
)
def test_other_names_are_not_answered_without_a_token(host):
    assert "does not go by the name" in refusal(host, "", "127.0.0.1", anybody=True)
    assert refusal(host, "", "127.0.0.1", anybody=False) == ""


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:8080", "x", "http://"]
)
@pytest.mark.parametrize("anybody", [True, False])
def test_pages_of_others_are_not_answered(origin, anybody):
    assert "of a page" in refusal("127.0.0.1:6443", origin, "127.0.0.1", anybody=anybody)
    assert refusal("127.0.0.1:6443", "https://127.0.0.1:6443", "127.0.0.1", anybody=anybody) == ""


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("127.9.9.9", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.com", False),
        ("fe80::1%eth0", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(host, local):
    assert is_local(host) is local


PATHS = (PODS, TIME, "/metrics", "/version", "/healthz", "/openapi/v3", "/none")


async def test_every_page_obeys_the_same_rules():
    async with served() as session:
        for path in PATHS:
            assert (await session.ask("GET", path, Host="evil.example")).code == 403
            assert (await session.ask("GET", path, Origin="http://evil.example")).code == 403
            assert (await session.ask("GET", path)).code == (404 if path == "/none" else 200)


async def test_every_page_asks_who_it_is():
    async with served(token="secret") as session:
        for path in PATHS:
            assert (await session.ask("GET", path, Host="our.example", **ADMIN)).code in (200, 404)
            assert (await session.ask("GET", path, Authorization="Bearer guess")).code == 401
            as_bob = await session.ask("GET", path, Impersonate_User="bob", **ADMIN)
            everybody = path in ("/version", "/healthz", "/openapi/v3")
            assert as_bob.code == (200 if everybody else 403)
            assert (await session.ask("GET", path, Impersonate_User="bob")).code == 403


async def test_time_is_moved_only_by_who_may():
    async with served(token="secret") as session:
        pause = {"action": "pause"}
        for headers in (
            {},
            {"Impersonate_User": "bob", **ADMIN},
            {"Origin": "http://evil.example", **ADMIN},
            {"Authorization": "Bearer guess"},
        ):
            assert (await session.ask("POST", TIME, pause, **headers)).code in (401, 403)
            assert not session.pace.paused
        refused = await session.ask("POST", TIME, pause, Impersonate_User="bob", **ADMIN)
        assert refused.tree["message"] == (
            'forbidden: User "bob" cannot post path "/controlplane/time"'
        )
        rule = {"nonResourceURLs": [TIME], "verbs": ["get", "post"]}
        group = "rbac.authorization.k8s.io"
        role = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "time"},
            "rules": [rule],
        }
        bound = {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "t"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "time"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}],
        }
        for path, tree in (("clusterroles", role), ("clusterrolebindings", bound)):
            made = await session.ask("POST", f"/apis/{group}/v1/{path}", tree, **ADMIN)
            assert made.code == 201
        assert (await session.ask("POST", TIME, pause, Impersonate_User="bob", **ADMIN)).code == 200
        assert session.pace.paused
        assert (await session.ask("POST", CONFIGMAPS, config("a"), **ADMIN)).code == 201
