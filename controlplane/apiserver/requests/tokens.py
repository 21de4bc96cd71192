"""Tokens of service accounts: reading what `serviceaccounts/token` made.

Upstream: pkg/serviceaccount (jwt.go, claims.go), pkg/registry/authentication/tokenreview.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from typing import Final

from controlplane.api.request import User
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.strategy import Context, Lookup
from controlplane.apiserver.options import ForeignReview
from controlplane.apiserver.schema import status

__all__ = ["ISSUER", "account_exists", "claims_of", "review", "signing_key", "user_of"]

ISSUER: Final = "https://kubernetes.default.svc"
PREFIX: Final = "system:serviceaccount:"
SECOND: Final = 1_000_000_000


def signing_key(lookup: Lookup) -> bytes:
    """What the tokens of a cluster are signed with: the uid of kube-system, as good as its name."""
    found = lookup.get("", "namespaces", "", "kube-system")
    return found.uid.encode() if found is not None else b""


def claims_of(token: str, key: bytes) -> Tree | None:
    """What a token says; None unless it was signed with this key."""
    text, _, signature = token.rpartition(".")
    if not key or text.count(".") != 1 or not text.isascii():
        return None
    try:
        if not hmac.compare_digest(_decoded(signature), hmac.digest(key, text.encode(), "sha256")):
            return None
        claims = json.loads(_decoded(text.partition(".")[2]))
    except (ValueError, binascii.Error, RecursionError):
        return None
    return claims if isinstance(claims, dict) else None


def user_of(claims: Tree, now: int, audiences: tuple[str, ...] = (ISSUER,)) -> User | None:
    """Whose token it is; None if it is not for one of the audiences or not valid at `now` (ns)."""
    if not set(audiences) & set(claims.get("aud") or ()) or claims.get("iss") != ISSUER:
        return None
    if not claims.get("nbf", 0) * SECOND <= now < claims.get("exp", 0) * SECOND:
        return None
    about = claims["kubernetes.io"]
    namespace, account = about["namespace"], about["serviceaccount"]
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    name = f"{PREFIX}{namespace}:{account['name']}"
    return User(name, account["uid"], (*groups, "system:authenticated"))


def account_exists(lookup: Lookup, user: User) -> bool:
    """Whether the service account that the user is still exists, and is the same one."""
    namespace, _, name = user.name.removeprefix(PREFIX).partition(":")
    found = lookup.get("", "serviceaccounts", namespace, name)
    return found is not None and found.uid == user.uid


def review(ctx: Context, spec: Tree, foreign: ForeignReview | None = None) -> Tree:
    """The status of a TokenReview; `foreign` knows tokens that somebody else signed.

    ApiError 400 without a token.
    """
    text = spec.get("token") or ""
    if not text:
        raise status.bad_request("token is required for TokenReview in authentication")
    wanted = tuple(spec.get("audiences") or (ISSUER,))
    claims = claims_of(text, signing_key(ctx.lookup))
    if claims is not None:
        user = user_of(claims, ctx.now, wanted)
        shared = [each for each in wanted if each in claims["aud"]] if user is not None else []
    else:
        found = foreign(text, ctx.now, wanted) if foreign is not None else None
        user, shared = found if found is not None else (None, [])
    if user is None or not account_exists(ctx.lookup, user):
        return {"user": {}, "error": "invalid bearer token"}
    shown: Tree = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    return {"authenticated": True, "user": shown, "audiences": shared}


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
