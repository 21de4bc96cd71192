"""Tokens of service accounts: who may sign, what is believed, and until when."""

from __future__ import annotations

import base64
import hmac
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.api.request import ADMIN
from controlplane.api.times import format_time
from controlplane.apiserver.http.verifying import Verifier
from controlplane.apiserver.options import EMULATED_KEY
from controlplane.apiserver.requests.token_keys import TOKEN_LIMIT, token_key
from controlplane.apiserver.requests.tokens import ISSUER, Claims, digest_of, user_of
from tests.apiserver.world import SECOND, START, World, pod

SECRET = bytes(range(32))
ROBOT = {"metadata": {"name": "robot"}}
NOW = START // SECOND
GOOD = {
    "aud": [ISSUER],
    "exp": NOW + 3600,
    "iat": NOW,
    "nbf": NOW,
    "iss": ISSUER,
    "jti": "j",
    "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": "u"}},
    "sub": "system:serviceaccount:default:robot",
}


def part(value):
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def decoded(text):
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def world(**settings):
    made = World(token_key=SECRET, **settings)
    made.account = made.create("serviceaccounts", ROBOT).tree
    return made


def token(made, **spec):
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return made.do("create", "serviceaccounts", "robot", body, sub="token")


def review(made, text):
    body = {"spec": {"token": text}}
    return made.create("tokenreviews", body, group="authentication.k8s.io", namespace="").tree[
        "status"
    ]


def test_a_token_is_signed_by_the_servers_key_and_says_what_upstreams_say():
    made = world()
    answer = token(made)
    assert answer.code == 201
    head, claims, _ = answer.tree["status"]["token"].split(".")
    assert decoded(head) == {"alg": "ES256", "kid": token_key(SECRET).kid}
    assert decoded(claims) == {
        **GOOD,
        "jti": decoded(claims)["jti"],
        "kubernetes.io": {
            "namespace": "default",
            "serviceaccount": {"name": "robot", "uid": made.account["metadata"]["uid"]},
        },
    }
    found = review(made, answer.tree["status"]["token"])
    assert found["user"]["extra"] == {
        "authentication.kubernetes.io/credential-id": [f"JTI={decoded(claims)['jti']}"]
    }


@pytest.mark.parametrize(
    ("seconds", "audience", "life"),
    [(3607, ISSUER, 365 * 86400), (3607, "vault", 3607), (3600, ISSUER, 3600)],
)
def test_a_token_that_admission_mounts_lives_on_for_a_year(seconds, audience, life):
    made = world()
    spec = {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}
    made.create("pods", {"metadata": {"name": "p"}, "spec": spec})
    bound = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    answer = token(made, expirationSeconds=seconds, audiences=[audience], boundObjectRef=bound)
    claims = decoded(answer.tree["status"]["token"].split(".")[1])
    assert claims["exp"] - claims["iat"] == life
    warned = claims["kubernetes.io"].get("warnafter")
    assert warned == (claims["iat"] + seconds if life != seconds else None)
    assert answer.tree["status"]["expirationTimestamp"] == format_time(
        (claims["iat"] + seconds) * SECOND
    )


def test_the_same_key_gives_the_same_tokens_and_another_one_others():
    first, again, other = world(), world(), World(token_key=bytes(31) + b"\1")
    other.create("serviceaccounts", ROBOT)
    texts = [token(each).tree["status"]["token"] for each in (first, again, other)]
    assert texts[0] == texts[1]
    assert texts[0].split(".")[1] == texts[2].split(".")[1]
    assert texts[0] != texts[2]
    assert "authenticated" not in review(first, texts[2])


def test_what_is_known_of_a_cluster_does_not_sign():
    """The uid of kube-system, and every other constant, was enough for that once."""
    made = world()
    uid = made.account["metadata"]["uid"]
    claims = {
        **GOOD,
        "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "robot", "uid": uid}},
    }
    system = made.get("namespaces", "kube-system", namespace="").tree["metadata"]["uid"]
    public = token_key(SECRET).public
    verifier = Verifier(SECRET)
    for secret in (system, uid, "", public["kid"], public["x"], json.dumps(dict(public))):
        for head in ({"alg": "HS256"}, {"alg": "ES256"}, {"alg": "HS256", "kid": public["kid"]}):
            text = f"{part(head)}.{part(claims)}"
            forged = f"{text}.{part(hmac.digest(secret.encode(), text.encode(), 'sha256'))}"
            assert review(made, forged) == {"user": {}, "error": "invalid bearer token"}
            assert verifier.user(forged, made.now) is None
    for alg in ("none", "None", "", None, 1, ["ES256"]):
        forged = f"{part({'alg': alg})}.{part(claims)}."
        assert verifier.user(forged, made.now) is None
    signed = token_key(SECRET).signed(claims)
    assert verifier.user(signed, made.now).uid == uid, "the key itself does"


def test_the_key_of_emulated_worlds_is_refused_at_the_rim():
    with pytest.raises(ValueError, match="no secret"):
        Verifier(EMULATED_KEY)
    signed = token_key(EMULATED_KEY).signed(GOOD)
    assert Verifier(SECRET).user(signed, START) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("nbf", [0]),
        ("nbf", "0"),
        ("nbf", True),
        ("nbf", -1),
        ("nbf", 1e300),
        ("nbf", {}),
        ("exp", [0]),
        ("exp", None),
        ("exp", NOW - 61),
        ("exp", 10**400),
        ("exp", float("nan")),
        ("iat", "x"),
        ("iat", NOW + 120),
        ("nbf", NOW + 7200),
        ("nbf", NOW + 61),
        ("aud", None),
        ("aud", 1),
        ("aud", [1]),
        ("aud", {ISSUER: 1}),
        ("aud", "vault"),
        ("aud", []),
        ("iss", "kubernetes"),
        ("iss", None),
        ("iss", [ISSUER]),
        ("sub", "system:serviceaccount:default:admin"),
        ("sub", 1),
        ("jti", 1),
        ("jti", "x" * 300),
        ("kubernetes.io", None),
        ("kubernetes.io", []),
        ("kubernetes.io", {"namespace": "default"}),
        ("kubernetes.io", {"namespace": 1, "serviceaccount": {"name": "robot", "uid": "u"}}),
        ("kubernetes.io", {"namespace": "default", "serviceaccount": {"name": ["r"], "uid": "u"}}),
        ("kubernetes.io", {"namespace": "default", "serviceaccount": {"name": "robot", "uid": 1}}),
        ("kubernetes.io", {**GOOD["kubernetes.io"], "pod": "p"}),
        ("kubernetes.io", {**GOOD["kubernetes.io"], "secret": {"uid": "u"}}),
    ],
)
def test_a_claim_of_another_type_size_or_time_names_no_user(key, value):
    verifier = Verifier(SECRET)
    assert verifier.user(token_key(SECRET).signed(GOOD), START) is not None
    changed = {**GOOD, key: value}
    tracemalloc.start()
    try:
        assert verifier.user(token_key(SECRET).signed(changed), START) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@given(
    st.dictionaries(
        st.sampled_from([*GOOD]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["namespace", "serviceaccount", "name", "uid", "pod"]), inner
                )
            ),
            max_leaves=8,
        ),
    )
)
def test_no_claims_break_the_reading_of_them(changed):
    found = Claims.of({**GOOD, **changed})
    if found is not None:
        user_of(found, START)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "...",
        "a.b",
        "a.b.c",
        "é.é.é",
        "\ud800.a.b",
        "%.%.%",
        "A" * 100_000,
        "." * 100_000,
        f"{part({'alg': 'ES256', 'kid': 'x' * 2000})}.{part(GOOD)}.{part(b'x' * 64)}",
        f"{part(b'[' * 700)}.{part(GOOD)}.{part(b'x' * 64)}",
        f"{part({'alg': 'ES256', 'crit': ['b64'], 'b64': False})}..{part(b'x' * 64)}",
        f"{part({'alg': 'ES256'})}.{part(GOOD)}.{part(b'')}",
        f"{part({'alg': 'ES256'})}.{part(GOOD)}.{part(bytes(64))}",
        f"{part({'alg': 'ES256'})}.{part(GOOD)}.{part(b'x' * 9000)}",
    ],
)
def test_what_is_no_token_names_no_user(text):
    assert Verifier(SECRET).user(text, START) is None
    if text and "\ud800" not in text:
        assert review(world(), text)["error"] == "invalid bearer token"


def test_a_long_token_is_not_decoded():
    signed = token_key(SECRET).signed({**GOOD, "more": "x" * TOKEN_LIMIT})
    assert Verifier(SECRET).user(signed, START) is None


def test_a_remembered_token_still_ends_and_few_are_remembered():
    verifier = Verifier(SECRET, known=2)
    signed = [token_key(SECRET).signed({**GOOD, "jti": str(number)}) for number in range(4)]
    for _ in range(2):
        for text in signed:
            assert verifier.user(text, START) is not None
    assert len(verifier._known) == 2
    ends = GOOD["exp"] * SECOND
    assert verifier.user(signed[-1], ends + 60 * SECOND) is not None, "a minute of leeway"
    assert verifier.user(signed[-1], ends + 61 * SECOND) is None


BOUND = [
    (
        "Pod",
        "pods",
        {**pod("p"), "spec": {**pod("p")["spec"], "serviceAccountName": "robot"}},
        "default",
    ),
    ("Secret", "secrets", {"metadata": {"name": "p"}}, "default"),
    ("Node", "nodes", {"metadata": {"name": "p"}}, ""),
]


@pytest.mark.parametrize(("kind", "resource", "body", "namespace"), BOUND)
def test_a_token_does_not_outlive_what_it_is_bound_to(kind, resource, body, namespace):
    made = world()
    uid = made.create(resource, body, namespace=namespace).tree["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": kind, "name": "p"}
    text = token(made, boundObjectRef=reference).tree["status"]["token"]
    assert decoded(text.split(".")[1])["kubernetes.io"][kind.lower()] == {"name": "p", "uid": uid}
    assert review(made, text)["authenticated"] is True
    options = {"gracePeriodSeconds": 0}
    assert made.delete(resource, "p", options, namespace=namespace).code == 200
    assert "authenticated" not in review(made, text)
    made.create(resource, body, namespace=namespace)
    assert "authenticated" not in review(made, text), "another one of that name"


def test_a_pod_that_is_being_deleted_keeps_its_token_for_a_minute():
    made = world()
    body = {**BOUND[0][2], "metadata": {"name": "p", "finalizers": ["a.b/c"]}}
    made.create("pods", body)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
    text = token(made, boundObjectRef=reference).tree["status"]["token"]
    made.delete("pods", "p", {"gracePeriodSeconds": 0})
    made.now += 60 * SECOND
    assert review(made, text)["authenticated"] is True
    made.now += SECOND
    assert "authenticated" not in review(made, text)


def test_a_pod_of_another_account_is_refused():
    made = world()
    made.create("pods", {**pod("p"), "spec": {**pod("p")["spec"], "serviceAccountName": "other"}})
    found = token(made, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p"})
    assert found.tree["message"] == (
        'cannot bind token for serviceaccount "robot" to pod running with different serviceaccount name.'
    )


def test_a_token_of_a_pod_names_its_node():
    made = world()
    uid = made.create("nodes", {"metadata": {"name": "n"}}, namespace="").tree["metadata"]["uid"]
    body = BOUND[0][2]
    made.create("pods", {**body, "spec": {**body["spec"], "nodeName": "n"}})
    text = token(made, boundObjectRef={"apiVersion": "v1", "kind": "Pod", "name": "p"}).tree
    text = text["status"]["token"]
    assert decoded(text.split(".")[1])["kubernetes.io"]["node"] == {"name": "n", "uid": uid}
    extra = review(made, text)["user"]["extra"]
    assert extra["authentication.kubernetes.io/node-name"] == ["n"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    made.delete("nodes", "n", namespace="")
    assert review(made, text)["authenticated"] is True, "the pod decides"


def test_a_token_that_the_server_was_started_with_is_reviewed():
    made = world(static_tokens={digest_of("secret"): ADMIN})

    def status(text, *audiences):
        spec = {"token": text, **({"audiences": list(audiences)} if audiences else {})}
        return made.create("tokenreviews", {"spec": spec}, group="authentication.k8s.io").tree[
            "status"
        ]

    found = status("secret")
    assert (found["authenticated"], found["user"]["username"]) == (True, ADMIN.name)
    assert found["audiences"] == status("secret", ISSUER, "other")["audiences"] == [ISSUER]
    assert (
        status("secret", "other")
        == status("other")
        == {"user": {}, "error": "invalid bearer token"}
    )


def test_a_token_cannot_be_bound_to_an_object_of_no_kind():
    made = world()
    refused = made.create(
        "serviceaccounts", {"spec": {"boundObjectRef": {}}}, name="robot", sub="token"
    )
    assert (refused.code, refused.message) == (400, "cannot bind token to object of type /, Kind=")
