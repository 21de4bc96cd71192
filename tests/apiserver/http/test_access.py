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


ADMIN = {"Authorization": "Bearer secret"}
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


async def token_of(session, name, **spec):
    made = await session.ask("POST", f"{ACCOUNTS}/{name}/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
    }, **ADMIN)  # fmt: skip
    assert made.code == 201, made.body
    return made.tree["status"]["token"]


async def reviewed(session, token, **spec):
    tree = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": token, **spec}}  # fmt: skip
    found = await session.ask("POST", REVIEWS, tree, **ADMIN)
    assert found.code == 201, found.body
    return found.tree["status"]


async def test_a_service_account_acts_with_its_token_until_it_ends():
    async with served(token="secret") as session:
        robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        assert (await session.ask("POST", ACCOUNTS, robot, **ADMIN)).code == 201
        token = await token_of(session, "robot", expirationSeconds=600)
        mine = {"Authorization": f"Bearer {token}"}
        who = await session.ask(
            "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, **mine,
        )  # fmt: skip
        info = who.tree["status"]["userInfo"]
        assert info["username"] == "system:serviceaccount:default:robot"
        assert info["groups"] == [
            "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated",
        ]  # fmt: skip
        assert (await session.ask("GET", PODS, **mine)).code == 403
        status = await reviewed(session, token)
        assert (status["authenticated"], status["user"]["username"]) == (True, info["username"])
        time = await session.ask("POST", "/controlplane/time", {"action": "pause"}, **mine)
        assert time.code == 403
        step = {"action": "step", "seconds": 601}
        assert (await session.ask("POST", "/controlplane/time", step, **ADMIN)).code == 200
        assert (await session.ask("GET", "/api", **mine)).code == 401
        assert "authenticated" not in await reviewed(session, token)


async def test_tokens_that_nobody_signed_or_whose_account_is_gone_or_that_are_for_others():
    async with served(token="secret") as session:
        robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        assert (await session.ask("POST", ACCOUNTS, robot, **ADMIN)).code == 201
        token = await token_of(session, "robot")
        other = await token_of(session, "robot", audiences=["vault"])
        head, claims, signature = token.split(".")
        for wrong in (
            other, f"{head}.{claims}.", f"{head}.{claims[:-4]}.{signature}", f"..{signature}", "a.b.c",
            token[:-3],
        ):  # fmt: skip
            found = await session.ask("GET", "/api", Authorization=f"Bearer {wrong}")
            assert found.code == 401, wrong
        assert (await reviewed(session, other, audiences=["vault"]))["audiences"] == ["vault"]
        assert (await reviewed(session, other))["user"] == {}
        mine = {"Authorization": f"Bearer {token}"}
        assert (await session.ask("GET", "/api", **mine)).code == 200
        assert (await session.ask("DELETE", f"{ACCOUNTS}/robot", **ADMIN)).code == 200
        assert (await session.ask("POST", ACCOUNTS, robot, **ADMIN)).code == 201
        assert (await session.ask("GET", "/api", **mine)).code == 401, "another uid"
