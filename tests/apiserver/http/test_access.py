"""Tokens: the right one, a wrong one, none."""

from __future__ import annotations

from tests.apiserver.http.session import PODS, served


async def test_the_token_is_asked_for():
    async with served(token="secret") as session:
        right = await session.ask("GET", PODS, Authorization="Bearer secret")
        assert right.code == 200
        wrong = await session.ask("GET", PODS, Authorization="Bearer guess")
        assert (wrong.code, wrong.tree["reason"]) == (401, "Unauthorized")
        none = await session.ask("GET", PODS)
        assert none.code == 403
        assert none.tree["message"] == (
            'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group ""'
            ' in the namespace "default"'
        )


async def test_anybody_may_ask_how_the_server_is():
    async with served(token="secret") as session:
        assert (await session.ask("GET", "/readyz")).body == b"ok"
        assert (await session.ask("GET", "/version")).code == 200
        found = await session.ask("GET", "/apis")
        assert found.tree["message"] == 'forbidden: User "system:anonymous" cannot get path "/apis"'


async def test_time_control_needs_the_token_too():
    async with served(token="secret") as session:
        assert (await session.ask("POST", "/controlplane/time", {"action": "pause"})).code == 403
        assert not session.pace.paused
