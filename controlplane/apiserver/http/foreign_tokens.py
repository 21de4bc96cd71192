"""Service account tokens with other signers, such as a controller manager that fills token Secrets.

Keys are those of kube-apiserver's --service-account-key-file. That the account still exists is looked up
inside the world; whether the Secret does is not. Upstream: pkg/serviceaccount/{jwt,legacy}.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from controlplane.api.request import User
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.token_keys import payload_of
from controlplane.apiserver.requests.tokens import ISSUER, PREFIX, Claims, user_of
from controlplane.errors import UsageError

__all__ = ["Key", "read_keys", "reviewed", "signed_by", "user_of_token"]

Key = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
LEGACY: Final = "kubernetes/serviceaccount"
_CLAIM: Final = "kubernetes.io/serviceaccount/"
_BLOCK: Final = re.compile(
    rb"-----BEGIN ([A-Z ]+)-----(?:(?!-----BEGIN ).)*?-----END \1-----", re.DOTALL
)
RSA_BITS: Final = 2048
_RSA: Final = ("RS256", "RS384", "RS512")
_BY_CURVE: Final = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


def read_keys(path: Path) -> list[Key]:
    """The public keys in a PEM file, those of private keys and certificates included. Raises UsageError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    found: list[Key] = []
    for block in _BLOCK.finditer(text):
        try:
            key = _key(block[1].decode(), block[0])
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue  # parameters and the like stand beside keys
        if isinstance(key, rsa.RSAPublicKey) and key.key_size < RSA_BITS:
            raise UsageError(
                f"{path}: an RSA key of {key.key_size} bits, expected {RSA_BITS} or more"
            )
        if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
            found.append(key)
    if not found:
        raise UsageError(f"{path}: data does not contain any valid RSA or ECDSA public keys")
    return found


def _key(kind: str, block: bytes) -> object:
    if kind.endswith("PRIVATE KEY"):
        return serialization.load_pem_private_key(block, None).public_key()
    if kind == "CERTIFICATE":
        return x509.load_pem_x509_certificate(block).public_key()
    return serialization.load_pem_public_key(block)


def user_of_token(token: str, keys: Sequence[Key], now: int) -> User | None:
    """Return the user of a token; None unless one of the keys signed it and it is valid at `now` (ns)."""
    found = signed_by(token, keys)
    return user_of(found, now) if isinstance(found, Claims) else found


def signed_by(token: str, keys: Sequence[Key]) -> Claims | User | None:
    """Return the claims of a token that one of the keys has signed, or its user if it has no time limit."""
    tree = _payload(token, keys)
    if tree is None:
        return None
    return Claims.of(tree) if tree.get("iss") != LEGACY else _legacy(tree)


def reviewed(
    token: str, keys: Sequence[Key], now: int, audiences: tuple[str, ...]
) -> tuple[User, list[str]] | None:
    """Return a token's user and those of the audiences that it is valid for; None unless a key fits and it is valid.

    Tokens without a time limit are for the API server alone.
    """
    found = signed_by(token, keys)
    if isinstance(found, Claims):
        user = user_of(found, now, audiences)
        shared = [each for each in audiences if each in found.audiences]
        return None if user is None else (user, shared)
    return None if found is None or ISSUER not in audiences else (found, [ISSUER])


def _legacy(claims: Tree) -> User | None:
    namespace, name, uid = (
        claims.get(_CLAIM + key)
        for key in ("namespace", "service-account.name", "service-account.uid")
    )
    if not isinstance(namespace, str) or not isinstance(name, str) or not namespace or not name:
        return None
    if claims.get("sub") != f"{PREFIX}{namespace}:{name}":
        return None
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"{PREFIX}{namespace}:{name}", str(uid or ""), (*groups, "system:authenticated"))


def _payload(token: str, keys: Sequence[Key]) -> Tree | None:
    found = (payload_of(token, key, _algorithms(key)) for key in keys)
    return next((tree for tree in found if tree is not None), None)


def _algorithms(key: Key) -> tuple[str, ...]:
    """Return the algorithms that a key may have signed by: its kind and curve decide, never the token."""
    if isinstance(key, rsa.RSAPublicKey):
        return _RSA
    name = _BY_CURVE.get(key.curve.name)
    return (name,) if name else ()
