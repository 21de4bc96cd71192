"""Who asks: bearer tokens to users. What they may do is decided inside the world, see `authorization`.

Upstream: apiserver pkg/authentication.
"""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from controlplane.api.request import ADMIN, User
from controlplane.apiserver import status

__all__ = ["ANONYMOUS", "Access"]

ANONYMOUS: Final = User("system:anonymous", "", ("system:unauthenticated",))


@frozen
class Access:
    """The known tokens. Without any, everybody is the administrator."""

    tokens: dict[str, User] = field(factory=dict, repr=False)

    @classmethod
    def of_token(cls, token: str) -> Access:
        """One token, the administrator's; "" lets everybody in."""
        return cls({token: ADMIN} if token else {})

    def user(self, authorization: str) -> User:
        """Who asks, by the Authorization header. ApiError 401 for a token that nobody has."""
        if not self.tokens:
            return ADMIN
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return ANONYMOUS
        known = self.tokens.get(token.strip())
        if known is None:
            raise status.ApiError(401, "Unauthorized", "Unauthorized")
        return known
