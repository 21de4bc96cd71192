"""Authentication: bearer tokens to users. Authorization is decided inside the world, see `authorization`.

Upstream: apiserver pkg/authentication.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import field, frozen

from controlplane.api.request import ADMIN, User
from controlplane.apiserver.schema import status

__all__ = ["ANONYMOUS", "Access", "ignored_token"]

ANONYMOUS: Final = User("system:anonymous", "", ("system:unauthenticated",))


def _unknown_token(_token: str, _now: int) -> User | None:
    return None


@frozen
class Access:
    """The known tokens. Without any, every client is the administrator.

    `account` says whose token of a service account it is at a time (ns), `now` which time it is. That
    the account still exists is looked up inside the world.
    """

    tokens: dict[str, User] = field(factory=dict, repr=False)
    account: Callable[[str, int], User | None] = field(default=_unknown_token, repr=False)
    now: Callable[[], int] = field(default=int, repr=False)

    @classmethod
    def of_token(
        cls,
        token: str,
        account: Callable[[str, int], User | None] = _unknown_token,
        now: Callable[[], int] = int,
    ) -> Access:
        """Accept one token, the administrator's; "" accepts requests without a token."""
        return cls({token: ADMIN} if token else {}, account, now)

    def user(self, authorization: str) -> User:
        """Return the user of an Authorization header. ApiError 401 for an unknown token."""
        token = _bearer(authorization)
        known = self.tokens.get(token)
        if known is None and token:
            known = self.account(token, self.now())
        if known is not None:
            return known
        if not self.tokens:
            return ADMIN
        if not token:
            return ANONYMOUS
        raise status.ApiError(401, "Unauthorized", "Unauthorized")


def ignored_token(authorization: str) -> str:
    """Return the warning for a header whose token counts as none because of a blank before it, "" for others."""
    scheme, *words = authorization.strip().split(" ", 2)
    if scheme.lower() != "bearer" or len(words) < 2 or words[0]:
        return ""
    return "the provided Authorization header contains extra space before the bearer token, and is ignored"


def _bearer(authorization: str) -> str:
    """Return the token of a header: the word after the first blank, "" without one.

    Two blanks in a row give no token, and words after it are ignored.
    Upstream: apiserver pkg/authentication/request/bearertoken.
    """
    scheme, *words = authorization.strip().split(" ", 2)
    return words[0] if words and scheme.lower() == "bearer" else ""
