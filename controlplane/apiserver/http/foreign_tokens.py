"""Tokens of service accounts that somebody else signed, as a controller manager does for token Secrets.

Keys are those of kube-apiserver's --service-account-key-file. That the account still exists is looked up
inside the world; whether the Secret does is not. Upstream: pkg/serviceaccount/{jwt,legacy}.go.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from controlplane.api.request import User
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.tokens import ISSUER, PREFIX, user_of
from controlplane.errors import UsageError

__all__ = ["Key", "read_keys", "reviewed", "user_of_token"]

Key = rsa.RSAPublicKey | ec.EllipticCurvePublicKey
LEGACY: Final = "kubernetes/serviceaccount"
_CLAIM: Final = "kubernetes.io/serviceaccount/"
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", re.DOTALL)
_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}


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
    """Whose token it is; None unless one of the keys signed it and it is valid at `now` (ns)."""
    found = reviewed(token, keys, now, (ISSUER,))
    return None if found is None else found[0]


def reviewed(
    token: str, keys: Sequence[Key], now: int, audiences: tuple[str, ...]
) -> tuple[User, list[str]] | None:
    """Whose token it is, and for which of the audiences; None unless a key fits and it is valid.

    Tokens without a time limit are for the API server alone.
    """
    claims = _claims(token, keys)
    if claims is None:
        return None
    if claims.get("iss") != LEGACY:
        try:
            user = user_of(claims, now, audiences)
        except (KeyError, TypeError):
            return None
        shared = [each for each in audiences if each in (claims.get("aud") or ())]
        return None if user is None else (user, shared)
    user = _legacy(claims)
    return None if user is None or ISSUER not in audiences else (user, [ISSUER])


def _legacy(claims: Tree) -> User | None:
    namespace, name, uid = (
        claims.get(_CLAIM + key)
        for key in ("namespace", "service-account.name", "service-account.uid")
    )
    if not namespace or not name or claims.get("sub") != f"{PREFIX}{namespace}:{name}":
        return None
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return User(f"{PREFIX}{namespace}:{name}", str(uid or ""), (*groups, "system:authenticated"))


def _claims(token: str, keys: Sequence[Key]) -> Tree | None:
    signed, _, signature = token.rpartition(".")
    if signed.count(".") != 1 or not token.isascii():
        return None
    try:
        head: Any = json.loads(_decoded(signed.partition(".")[0]))
        claims: Any = json.loads(_decoded(signed.partition(".")[2]))
        raw = _decoded(signature)
    except (ValueError, binascii.Error, RecursionError):
        return None
    if not isinstance(head, dict) or not isinstance(claims, dict):
        return None
    name = str(head.get("alg", ""))
    if any(_fits(key, name, raw, signed.encode()) for key in keys):
        return claims
    return None


def _fits(key: Key, name: str, signature: bytes, data: bytes) -> bool:
    """Whether a key has signed the data, by the algorithm of that name."""
    used = _HASHES.get(name[2:])
    if used is None:
        return False
    try:
        if isinstance(key, rsa.RSAPublicKey) and name.startswith("RS"):
            key.verify(signature, data, padding.PKCS1v15(), used)
        elif isinstance(key, ec.EllipticCurvePublicKey) and name.startswith("ES"):
            half = len(signature) // 2
            parts = (int.from_bytes(each) for each in (signature[:half], signature[half:]))
            key.verify(utils.encode_dss_signature(*parts), data, ec.ECDSA(used))
        else:
            return False
    except InvalidSignature:
        return False
    return True


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
