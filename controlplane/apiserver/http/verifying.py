"""Verification of service account tokens: signatures are checked once, times at every request.

Upstream: apiserver pkg/authentication/token/cache.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from controlplane.apiserver.options import EMULATED_KEY
from controlplane.apiserver.requests.token_keys import TOKEN_LIMIT, token_key
from controlplane.apiserver.requests.tokens import Claims, user_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controlplane.api.request import User
    from controlplane.apiserver.http.foreign_tokens import Key

__all__ = ["Verifier"]

KNOWN: Final = 4096
"""The number of tokens that are remembered, by digest, with their few claims."""


class Verifier:
    """Knows tokens that were signed with `secret`, or by others with one of `keys`.

    The key of emulated worlds is refused: it is public. Raises ValueError.
    """

    def __init__(self, secret: bytes, keys: Sequence[Key] = (), *, known: int = KNOWN) -> None:
        if secret == EMULATED_KEY:
            raise ValueError("the key of emulated worlds is no secret")
        self._secret = secret
        self._keys = keys
        self._limit = known
        self._known: dict[bytes, Claims | User] = {}

    def user(self, token: str, now: int) -> User | None:
        """Return the user of a token; None for an unknown one, or at a time (ns) outside its validity."""
        if len(token) > TOKEN_LIMIT:
            return None
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = self._known.get(digest)
        if found is None:
            found = self._verified(token)
            if found is None:
                return None
            if len(self._known) >= self._limit:
                del self._known[next(iter(self._known))]
            self._known[digest] = found
        return user_of(found, now) if isinstance(found, Claims) else found

    def _verified(self, token: str) -> Claims | User | None:
        tree = token_key(self._secret).claims(token)
        if tree is not None:
            return Claims.of(tree)
        if not self._keys:
            return None
        from controlplane.apiserver.http.foreign_tokens import signed_by

        return signed_by(token, self._keys)
