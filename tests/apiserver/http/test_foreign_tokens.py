"""Tokens of service accounts that a controller manager signed with a key of its own."""

import base64
import hmac
import json

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from controlplane.apiserver.http.foreign_tokens import read_keys, reviewed, user_of_token
from controlplane.errors import UsageError
from tests.apiserver.world import World

KEY = ec.generate_private_key(ec.SECP256R1())
LEGACY = {
    "iss": "kubernetes/serviceaccount",
    "sub": "system:serviceaccount:kube-system:builder",
    "kubernetes.io/serviceaccount/namespace": "kube-system",
    "kubernetes.io/serviceaccount/service-account.name": "builder",
    "kubernetes.io/serviceaccount/service-account.uid": "u1",
    "kubernetes.io/serviceaccount/secret.name": "builder-token",
}


HS256, NONE = b'{"alg":"HS256"}', b'{"alg":"none"}'


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(claims, key=KEY):
    rs = isinstance(key, rsa.RSAPrivateKey)
    head = json.dumps({"alg": "RS256" if rs else "ES256", "kid": "x"}).encode()
    text = f"{encoded(head)}.{encoded(json.dumps(claims).encode())}"
    if rs:
        signature = key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
    else:
        parts = utils.decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        signature = b"".join(part.to_bytes(32) for part in parts)
    return f"{text}.{encoded(signature)}"


def pem(key):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def test_a_token_of_a_secret_is_its_account():
    user = user_of_token(token(LEGACY), [KEY.public_key()], 0)
    assert (user.name, user.uid) == ("system:serviceaccount:kube-system:builder", "u1")
    assert "system:serviceaccounts:kube-system" in user.groups


def test_rsa_keys_sign_too():
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    assert user_of_token(token(LEGACY, key), [KEY.public_key(), key.public_key()], 0) is not None
    assert user_of_token(token(LEGACY, key), [KEY.public_key()], 0) is None


def test_bound_tokens_hold_for_their_time():
    claims = {
        "iss": "https://kubernetes.default.svc",
        "aud": ["https://kubernetes.default.svc"],
        "nbf": 10,
        "exp": 20,
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "b", "uid": "u"}},
    }
    keys = [KEY.public_key()]
    assert user_of_token(token(claims), keys, 15 * 10**9).name == "system:serviceaccount:a:b"
    assert user_of_token(token(claims), keys, 80 * 10**9) is not None, "a minute of leeway"
    assert user_of_token(token(claims), keys, 81 * 10**9) is None


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "a.b",
        "a.b.c",
        "é.é.é",
        token({**LEGACY, "sub": "system:serviceaccount:a:b"}),
        token({"iss": "https://kubernetes.default.svc"}),
        token(LEGACY)[:-4] + "AAAA",
        token({}),
        token([1]),
    ],
)
def test_what_is_no_such_token_names_no_user(wrong):
    assert user_of_token(wrong, [KEY.public_key()], 0) is None


def test_a_key_file_may_hold_several_keys_and_must_hold_one(tmp_path):
    path = tmp_path / "keys.pem"
    private = KEY.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(pem(KEY) + b"\n" + private)
    assert len(read_keys(path)) == 2
    path.write_text("nothing")
    with pytest.raises(UsageError, match="does not contain any valid RSA or ECDSA public keys"):
        read_keys(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_keys(tmp_path / "none")


def test_a_short_rsa_key_is_refused_by_name(tmp_path):
    path = tmp_path / "keys.pem"
    path.write_bytes(pem(rsa.generate_private_key(public_exponent=65537, key_size=1024)))
    with pytest.raises(UsageError, match=r"keys\.pem: an RSA key of 1024 bits, expected 2048"):
        read_keys(path)


def test_a_public_key_is_no_shared_secret_and_no_token_names_its_own_algorithm():
    """The confusion of HS256 with RS256: whoever has the public key would sign with it as with a password."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    for secret in (pem(key), pem(KEY)):
        text = f"{encoded(HS256)}.{encoded(json.dumps(LEGACY).encode())}"
        forged = f"{text}.{encoded(hmac.digest(secret, text.encode(), 'sha256'))}"
        assert user_of_token(forged, [key.public_key(), KEY.public_key()], 0) is None
    unsigned = f"{encoded(NONE)}.{encoded(json.dumps(LEGACY).encode())}."
    assert user_of_token(unsigned, [KEY.public_key()], 0) is None


def test_a_review_knows_audiences_of_bound_tokens_and_none_of_others():
    issuer = "https://kubernetes.default.svc"
    claims = {
        "iss": issuer,
        "aud": ["vault", issuer],
        "nbf": 10,
        "exp": 20,
        "kubernetes.io": {"namespace": "a", "serviceaccount": {"name": "b", "uid": "u"}},
    }
    keys, now = [KEY.public_key()], 15 * 10**9
    assert reviewed(token(claims), keys, now, ("vault",))[1] == ["vault"]
    assert reviewed(token(claims), keys, now, ("bank",)) is None
    assert reviewed(token(LEGACY), keys, now, ("vault",)) is None
    assert reviewed(token(LEGACY), keys, now, ("vault", issuer))[1] == [issuer]


def test_a_review_of_a_token_that_another_issuer_signed():
    keys = [KEY.public_key()]
    world = World(foreign_review=lambda text, now, wanted: reviewed(text, keys, now, wanted))
    account = world.create(
        "serviceaccounts", {"metadata": {"name": "builder"}}, namespace="kube-system"
    ).tree
    uid = "kubernetes.io/serviceaccount/service-account.uid"

    def asked(claims, key=KEY):
        body = {"spec": {"token": token(claims, key)}}
        return world.create("tokenreviews", body, group="authentication.k8s.io", namespace="").tree[
            "status"
        ]

    found = asked({**LEGACY, uid: account["metadata"]["uid"]})
    assert found["authenticated"] is True
    assert found["user"]["username"] == "system:serviceaccount:kube-system:builder"
    assert found["audiences"] == ["https://kubernetes.default.svc"]
    assert "authenticated" not in asked(LEGACY), "another uid"
    other = ec.generate_private_key(ec.SECP256R1())
    assert "authenticated" not in asked({**LEGACY, uid: account["metadata"]["uid"]}, other)
