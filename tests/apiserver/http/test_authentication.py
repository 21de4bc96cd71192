"""Tokens: the right one, a wrong one, none."""

from __future__ import annotations

import base64
import hmac

import jwt

from controlplane.apiserver.options import EMULATED_KEY
from controlplane.apiserver.requests.token_keys import token_key
from controlplane.apiserver.requests.tokens import ISSUER
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


async def test_the_word_after_the_first_blank_is_the_token():
    async with served(token="secret") as session:
        for header, code in {
            "bearer secret": 200,
            " Bearer secret ": 200,
            "Bearer secret more": 200,
            "Bearer  secret": 403,
            "Bearer": 403,
            "Basic secret": 403,
        }.items():
            found = await session.ask("GET", PODS, Authorization=header)
            assert found.code == code, header


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
    made = await session.ask(
        "POST",
        f"{ACCOUNTS}/{name}/token",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": spec,
        },
        **ADMIN,
    )
    assert made.code == 201, made.body
    return made.tree["status"]["token"]


async def robot_of(session):
    robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    made = await session.ask("POST", ACCOUNTS, robot, **ADMIN)
    assert made.code == 201
    return made.tree["metadata"]


async def reviewed(session, token, **spec):
    tree = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, **spec},
    }
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
            "POST",
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
            **mine,
        )
        info = who.tree["status"]["userInfo"]
        assert info["username"] == "system:serviceaccount:default:robot"
        assert info["groups"] == [
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated",
        ]
        assert (await session.ask("GET", PODS, **mine)).code == 403
        status = await reviewed(session, token)
        assert (status["authenticated"], status["user"]["username"]) == (True, info["username"])
        time = await session.ask("POST", "/controlplane/time", {"action": "pause"}, **mine)
        assert time.code == 403
        step = {"action": "step", "seconds": 661}
        assert (await session.ask("POST", "/controlplane/time", step, **ADMIN)).code == 200
        assert (await session.ask("GET", "/api", **mine)).code == 401
        assert "authenticated" not in await reviewed(session, token)


async def test_tokens_without_a_signature_or_whose_account_is_gone_or_that_are_for_others():
    async with served(token="secret") as session:
        robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        assert (await session.ask("POST", ACCOUNTS, robot, **ADMIN)).code == 201
        token = await token_of(session, "robot")
        other = await token_of(session, "robot", audiences=["vault"])
        head, claims, signature = token.split(".")
        for wrong in (
            other,
            f"{head}.{claims}.",
            f"{head}.{claims[:-4]}.{signature}",
            f"..{signature}",
            "a.b.c",
            token[:-3],
        ):
            found = await session.ask("GET", "/api", Authorization=f"Bearer {wrong}")
            assert found.code == 401, wrong
        assert (await reviewed(session, other, audiences=["vault"]))["audiences"] == ["vault"]
        assert (await reviewed(session, other))["user"] == {}
        mine = {"Authorization": f"Bearer {token}"}
        assert (await session.ask("GET", "/api", **mine)).code == 200
        assert (await session.ask("DELETE", f"{ACCOUNTS}/robot", **ADMIN)).code == 200
        assert (await session.ask("POST", ACCOUNTS, robot, **ADMIN)).code == 201
        assert (await session.ask("GET", "/api", **mine)).code == 401, "another uid"


async def test_a_token_ends_over_http_with_what_it_is_bound_to():
    async with served(token="secret") as session:
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
        secrets = "/api/v1/namespaces/default/secrets"
        assert (await session.ask("POST", secrets, secret, **ADMIN)).code == 201
        robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        assert (await session.ask("POST", ACCOUNTS, robot, **ADMIN)).code == 201
        bound = {"apiVersion": "v1", "kind": "Secret", "name": "s"}
        mine = {"Authorization": f"Bearer {await token_of(session, 'robot', boundObjectRef=bound)}"}
        assert (await session.ask("GET", "/api", **mine)).code == 200
        assert (await session.ask("GET", "/metrics", **mine)).code == 403
        assert (await session.ask("DELETE", f"{secrets}/s", **ADMIN)).code == 200
        gone = await session.ask("GET", "/api", **mine)
        assert (gone.code, gone.tree["message"]) == (401, "Unauthorized")
        assert (await session.ask("GET", "/metrics", **mine)).code == 401


async def test_tokens_of_another_session_and_of_the_emulated_world_name_no_user():
    claims = {
        "aud": [ISSUER],
        "exp": 1 << 40,
        "iat": 0,
        "nbf": 0,
        "iss": ISSUER,
        "sub": "system:serviceaccount:default:robot",
    }
    async with served(token="secret") as session:
        account = await robot_of(session)
        kube = await session.ask("GET", "/api/v1/namespaces/kube-system", **ADMIN)
        claims["kubernetes.io"] = {
            "namespace": "default",
            "serviceaccount": {"name": "robot", "uid": account["uid"]},
        }
        forged = [token_key(secret).signed(claims) for secret in (EMULATED_KEY, bytes(range(32)))]
        text = forged[0].rpartition(".")[0]
        old = hmac.digest(kube.tree["metadata"]["uid"].encode(), text.encode(), "sha256")
        forged.append(f"{text}.{base64.urlsafe_b64encode(old).decode().rstrip('=')}")
        for each in forged:
            found = await session.ask("GET", "/api", Authorization=f"Bearer {each}")
            assert (found.code, found.tree["message"]) == (401, "Unauthorized")
            assert (await reviewed(session, each))["user"] == {}
        first = await token_of(session, "robot")
    async with served(token="secret") as session:
        assert (await robot_of(session))["uid"] == account["uid"], "uids can be foreseen"
        again = await session.ask("GET", "/api", Authorization=f"Bearer {first}")
        assert again.code == 401, "every session has a key of its own"


async def test_others_find_the_key_that_checks_tokens():
    async with served(token="secret") as session:
        found = await session.ask("GET", "/.well-known/openid-configuration", **ADMIN)
        assert found.tree == {
            "issuer": ISSUER,
            "jwks_uri": f"https://127.0.0.1:{session.port}/openid/v1/jwks",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        keys = await session.ask("GET", "/openid/v1/jwks", **ADMIN)
        assert keys.headers["content-type"] == "application/jwk-set+json"
        assert keys.headers["cache-control"] == "public, max-age=3600"
        await robot_of(session)
        token = await token_of(session, "robot")
        key = jwt.PyJWKSet.from_dict(keys.tree)[jwt.get_unverified_header(token)["kid"]]
        claims = jwt.decode(
            token,
            key,
            algorithms=["ES256"],
            audience=ISSUER,
            options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
        )
        assert claims["sub"] == "system:serviceaccount:default:robot"
        mine = {"Authorization": f"Bearer {token}"}
        assert (await session.ask("GET", "/openid/v1/jwks", **mine)).code == 200
        assert (await session.ask("GET", "/openid/v1/jwks")).code == 403
