"""Tokens of service accounts: what they say, whose they are, and whether they still hold.

Upstream: pkg/serviceaccount (jwt.go, claims.go), pkg/registry/authentication/tokenreview.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from attrs import frozen

from controlplane.api.request import Bound, User
from controlplane.api.times import SECOND, parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.token_keys import token_key
from controlplane.apiserver.schema import status

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.apiserver.kinds.strategy import Context, Lookup
    from controlplane.apiserver.options import ServerOptions

__all__ = [
    "BOUND",
    "ISSUER",
    "PREFIX",
    "Claims",
    "digest_of",
    "holds",
    "review",
    "shown",
    "user_of",
]

ISSUER: Final = "https://kubernetes.default.svc"
PREFIX: Final = "system:serviceaccount:"
LEEWAY_NS: Final = 60 * SECOND
"""The tolerated difference of clocks. Upstream: go-jose, jwt.DefaultLeeway."""
BOUND: Final = {"pod": "pods", "secret": "secrets", "node": "nodes"}
"""The objects that a token can be bound to: its claim, its resource."""
_LATEST: Final = 1 << 53
_NAME_LIMIT: Final = 253
_EXTRA: Final = "authentication.kubernetes.io/"


@frozen
class Claims:
    """The claims of a token, every value checked. Times are in seconds since 1970."""

    audiences: tuple[str, ...]
    begins: int
    ends: int
    id: str
    namespace: str
    account: str
    uid: str
    bound: tuple[Bound, ...] = ()

    @classmethod
    def of(cls, tree: Tree) -> Claims | None:
        """The claims of a token; None unless each is what it has to be."""
        audiences = tree.get("aud")
        if isinstance(audiences, str):
            audiences = [audiences]
        if not isinstance(audiences, list) or not all(isinstance(each, str) for each in audiences):
            return None
        times = [_time(tree.get(key)) for key in ("nbf", "iat", "exp")]
        about = tree.get("kubernetes.io")
        if tree.get("iss") != ISSUER or None in times or not isinstance(about, dict):
            return None
        begins, issued, ends = (each for each in times if each is not None)
        if not max(begins, issued) <= ends:
            return None
        namespace, account = about.get("namespace"), _reference(about.get("serviceaccount"))
        if not _is_name(namespace) or account is None:
            return None
        bound: list[Bound] = []
        for claim, resource in BOUND.items():
            if about.get(claim) is None:
                continue
            found = _reference(about[claim])
            if found is None:
                return None
            bound.append(Bound(resource, *found))
        name, uid = account
        if tree.get("sub", f"{PREFIX}{namespace}:{name}") != f"{PREFIX}{namespace}:{name}":
            return None
        made = tree.get("jti", "")
        if not isinstance(made, str) or len(made) > _NAME_LIMIT:
            return None
        return cls(
            tuple(audiences), max(begins, issued), ends, made, namespace, name, uid, tuple(bound)
        )

    def hold_at(self, now: int) -> bool:
        """Return whether the time (ns) is within the token's validity."""
        return self.begins * SECOND - LEEWAY_NS <= now <= self.ends * SECOND + LEEWAY_NS


def user_of(claims: Claims, now: int, audiences: tuple[str, ...] = (ISSUER,)) -> User | None:
    """Return the user of a token; None if it is not for one of the audiences or not valid at `now` (ns)."""
    if not claims.hold_at(now) or not any(each in claims.audiences for each in audiences):
        return None
    namespace = claims.namespace
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    extra: list[tuple[str, tuple[str, ...]]] = []
    if claims.id:
        extra.append((f"{_EXTRA}credential-id", (f"JTI={claims.id}",)))
    for kind in ("node", "pod"):
        for each in claims.bound:
            if each.resource == BOUND[kind]:
                extra.append((f"{_EXTRA}{kind}-name", (each.name,)))
                if each.uid:
                    extra.append((f"{_EXTRA}{kind}-uid", (each.uid,)))
    return User(
        f"{PREFIX}{namespace}:{claims.account}",
        claims.uid,
        (*groups, "system:authenticated"),
        tuple(extra),
        claims.bound,
    )


def holds(lookup: Lookup, user: User, now: int) -> bool:
    """Return whether a service account, and the object that its token is bound to, exist and are the same ones.

    An object under deletion is valid for a minute more. The node of a pod that it is bound to is not checked.
    """
    namespace, _, name = user.name.removeprefix(PREFIX).partition(":")
    if not _is_same(lookup.get("", "serviceaccounts", namespace, name), user.uid, now):
        return False
    of_pod = any(each.resource == "pods" for each in user.bound)
    for each in user.bound:
        if each.resource == "nodes" and of_pod:
            continue
        where = "" if each.resource == "nodes" else namespace
        if not _is_same(lookup.get("", each.resource, where, each.name), each.uid, now):
            return False
    return True


def digest_of(token: str) -> str:
    """Return what is kept of a token that is a secret of its own: its SHA-256, as hexadecimal digits."""
    return sha256(token.encode()).hexdigest()


def review(ctx: Context, spec: Tree, options: ServerOptions) -> Tree:
    """Return the status of a TokenReview, of a token that one of the server's authenticators knows.

    ApiError 400 without a token.
    """
    text = spec.get("token") or ""
    if not text:
        raise status.bad_request("token is required for TokenReview in authentication")
    wanted = tuple(spec.get("audiences") or (ISSUER,))
    known = options.static_tokens.get(digest_of(text)) if options.static_tokens else None
    if known is not None and ISSUER in wanted:
        return {"authenticated": True, "user": shown(known), "audiences": [ISSUER]}
    tree = token_key(options.token_key).claims(text)
    user: User | None = None
    shared: list[str] = []
    if tree is not None:
        claims = Claims.of(tree)
        if claims is not None:
            user = user_of(claims, ctx.now, wanted)
            shared = [each for each in wanted if each in claims.audiences]
    elif options.foreign_review is not None:
        found = options.foreign_review(text, ctx.now, wanted)
        user, shared = found if found is not None else (None, [])
    if user is None or not holds(ctx.lookup, user, ctx.now):
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": shown(user), "audiences": shared}


def shown(user: User) -> Tree:
    """A user as an answer tells of it."""
    tree: Tree = {"username": user.name, "groups": list(user.groups)}
    if user.uid:
        tree["uid"] = user.uid
    if user.extra:
        tree["extra"] = {key: list(values) for key, values in user.extra}
    return tree


def _is_same(found: Object | None, uid: str, now: int) -> bool:
    if found is None or found.uid != uid:
        return False
    leaving = found.tree["metadata"].get("deletionTimestamp")
    return not leaving or parse_time(leaving) >= now - LEEWAY_NS


def _time(value: Any) -> int | None:
    """Seconds of a claim, 0 where there is none; None for what is no time."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= _LATEST else None


def _is_name(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= _NAME_LIMIT


def _reference(value: Any) -> tuple[str, str] | None:
    """Name and uid of an object; None for what is no reference."""
    if not isinstance(value, dict):
        return None
    name, uid = value.get("name"), value.get("uid", "")
    if not _is_name(name) or not isinstance(uid, str) or len(uid) > _NAME_LIMIT:
        return None
    return name, uid
