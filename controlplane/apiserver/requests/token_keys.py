"""Signing keys of service account tokens: JSON web tokens by ES256, and by nothing else.

A key is 32 bytes, the private number of a P-256 key. Signatures are deterministic (RFC 6979), so that
a session that is repeated with its key gives the same tokens. Upstream: pkg/serviceaccount (jwt.go,
openidmetadata.go), where RS256 and ES256 are what keys of a cluster may be.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from controlplane.api.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt import PyJWS

__all__ = ["ALGORITHM", "KEY_BYTES", "TOKEN_LIMIT", "TokenKey", "payload_of", "token_key"]

ALGORITHM: Final = "ES256"
KEY_BYTES: Final = 32
TOKEN_LIMIT: Final = 16_384
"""Longer texts are no tokens: they are not decoded. Those of a cluster have about a thousand bytes."""
_HEAD_LIMIT: Final = 1024
_SIGNATURE_LIMIT: Final = 1024


@frozen(eq=False)
class TokenKey:
    """One key, ready for use. `kid` names it as upstream does, by the digest of its public half."""

    kid: str
    public: Mapping[str, str]
    """The public half as a JSON web key."""
    _private: ec.EllipticCurvePrivateKey = field(repr=False)
    _jws: PyJWS = field(repr=False)

    def signed(self, claims: Tree) -> str:
        """A token that says this."""
        payload = json.dumps(claims, separators=(",", ":"), sort_keys=True).encode()
        return self._jws.encode(
            payload,
            self._private,
            ALGORITHM,
            headers={"alg": ALGORITHM, "kid": self.kid, "typ": None},
        )

    def claims(self, token: str) -> Tree | None:
        """Return the payload of a token; None unless this key signed it."""
        head = _head(token)
        if head is None or head.get("kid", self.kid) != self.kid:
            return None
        return payload_of(token, self._private.public_key(), (ALGORITHM,))


@lru_cache(maxsize=8)
def token_key(secret: bytes) -> TokenKey:
    """The key that these bytes are. Raises ValueError when they are none."""
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from jwt import PyJWS
    from jwt.algorithms import ECAlgorithm
    from jwt.utils import der_to_raw_signature

    class Deterministic(ECAlgorithm):
        """ES256 that gives the same signature for the same text."""

        def sign(self, msg: bytes, key: Any) -> bytes:
            """Sign without chance. Upstream of the rule: RFC 6979."""
            how = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
            return der_to_raw_signature(key.sign(msg, how), key.curve)

    if len(secret) != KEY_BYTES:
        raise ValueError(f"a key of {len(secret)} bytes, expected {KEY_BYTES}")
    private = ec.derive_private_key(int.from_bytes(secret), ec.SECP256R1())
    found = private.public_key()
    der = found.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    kid = _base64(hashlib.sha256(der).digest())
    numbers = found.public_numbers()
    x, y = (_base64(each.to_bytes(KEY_BYTES)) for each in (numbers.x, numbers.y))
    public = {
        "use": "sig",
        "kty": "EC",
        "kid": kid,
        "crv": "P-256",
        "alg": ALGORITHM,
        "x": x,
        "y": y,
    }
    jws = PyJWS(algorithms=[])
    jws.register_algorithm(ALGORITHM, Deterministic(hashes.SHA256, ec.SECP256R1))
    return TokenKey(kid, public, private, jws)


def payload_of(token: str, key: Any, algorithms: Iterable[str]) -> Tree | None:
    """Return the payload of a token; None if malformed, or unless a public key signed it by one of these algorithms."""
    from jwt import PyJWS
    from jwt.exceptions import PyJWTError

    if _head(token) is None:
        return None
    try:
        payload = PyJWS(options={"enforce_minimum_key_length": True}).decode(
            token, key, algorithms=[*algorithms]
        )
        claims = json.loads(payload)
    except (PyJWTError, ValueError, TypeError, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None


def _head(token: str) -> Tree | None:
    """The header of what looks like a token of bearable size: nothing else is decoded."""
    if len(token) > TOKEN_LIMIT or not token.isascii() or token.count(".") != 2:
        return None
    head, _, signature = token.split(".")
    if len(head) > _HEAD_LIMIT or len(signature) > _SIGNATURE_LIMIT:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
