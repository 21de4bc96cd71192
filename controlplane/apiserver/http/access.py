"""Who asks: bearer tokens to users. What they may do is decided inside the world, see `authorization`.

Upstream: apiserver pkg/authentication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import field, frozen

from controlplane.api.request import ADMIN, User
from controlplane.apiserver.requests.tokens import claims_of, user_of
from controlplane.apiserver.schema import status

__all__ = ["ANONYMOUS", "Access"]

ANONYMOUS: Final = User("system:anonymous", "", ("system:unauthenticated",))


Foreign = Callable[[str, int], User | None]


def _nobodys(_token: str, _now: int) -> User | None:
    return None


@frozen
class Access:
    """The known tokens. Without any, everybody is the administrator.

    `key` is what tokens of service accounts are signed with, `now` the time (ns) until which they
    must hold; that the account still exists is looked up inside the world. `foreign` says whose token
    it is that somebody else signed.
    """

    tokens: dict[str, User] = field(factory=dict, repr=False)
    key: Callable[[], bytes] = field(default=bytes, repr=False)
    now: Callable[[], int] = field(default=int, repr=False)
    foreign: Foreign = field(default=_nobodys, repr=False)

    @classmethod
    def of_token(
        cls,
        token: str,
        key: Callable[[], bytes] = bytes,
        now: Callable[[], int] = int,
        foreign: Foreign = _nobodys,
    ) -> Access:
        """One token, the administrator's; "" lets everybody in who brings none."""
        return cls({token: ADMIN} if token else {}, key, now, foreign)

    def user(self, authorization: str) -> User:
        """Who asks, by the Authorization header. ApiError 401 for a token that nobody has."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        known = self.tokens.get(token)
        if known is None and token:
            claims = claims_of(token, self.key())
            now = self.now()
            known = self.foreign(token, now) if claims is None else user_of(claims, now)
        if known is not None:
            return known
        if not self.tokens:
            return ADMIN
        if not token:
            return ANONYMOUS
        raise status.ApiError(401, "Unauthorized", "Unauthorized")
