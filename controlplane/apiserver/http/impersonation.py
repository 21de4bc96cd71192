"""Impersonation: the headers by which a request acts as another user.

Authorization is decided by `apiserver.authorization`. Upstream: apiserver
pkg/endpoints/filters/impersonation.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.request import User
from controlplane.api.validation import quote
from controlplane.apiserver.requests.authorization.rbac import SERVICE_ACCOUNT, Attributes
from controlplane.apiserver.requests.tokens import holds
from controlplane.apiserver.schema import status

if TYPE_CHECKING:
    from controlplane.apiserver.kinds.strategy import Lookup
    from controlplane.apiserver.requests.authorization.access import Access
    from controlplane.apiserver.requests.routing import HttpRequest

__all__ = ["EXTRA", "acting", "impersonated"]

EXTRA: Final = "impersonate-extra-"
"""Headers that begin with this carry more about the user; the rest of the name says what."""
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ANONYMOUS: Final = "system:anonymous"
_GROUP: Final = "authentication.k8s.io"


def acting(access: Access, lookup: Lookup, http: HttpRequest, now: int) -> User:
    """The user a request acts as at a time (ns).

    ApiError as `impersonated`, and 401 for a service account that is gone, or whose token is bound to
    something that is.
    """
    user = http.user
    if user.name.startswith(SERVICE_ACCOUNT) and not holds(lookup, user, now):
        raise status.ApiError(401, "Unauthorized", "Unauthorized")
    return impersonated(access, http)


def impersonated(access: Access, http: HttpRequest) -> User:
    """The user a request acts as. ApiError 403 when the asker may not act as that one; 400 for half a wish."""
    headers, asker = http.headers, http.user
    name = headers.get("impersonate-user", "")
    groups = tuple(
        each.strip() for each in headers.get("impersonate-group", "").split(",") if each.strip()
    )
    uid = headers.get("impersonate-uid", "")
    extra = {key.removeprefix(EXTRA): headers[key] for key in headers if key.startswith(EXTRA)}
    if not name:
        if groups or uid or extra:
            wanted = _shown(uid, groups, extra)
            raise status.bad_request(f"requested {wanted} without impersonating a user name")
        return asker

    def check(resource: str, who: str, group: str = "", sub: str = "", namespace: str = "") -> None:
        access.check(asker, Attributes("impersonate", group, resource, sub, namespace, who))

    account = _account(name)
    if account is not None:
        check("serviceaccounts", account[1], namespace=account[0])
    else:
        check("users", name)
    for each in groups:
        check("groups", each)
    for key, value in extra.items():
        check("userextras", value, _GROUP, key)
    if uid:
        check("uids", uid, _GROUP)
    if account is not None and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    given = UNAUTHENTICATED if name == ANONYMOUS else AUTHENTICATED
    if given not in groups:
        groups = (*groups, given)
    more = tuple((key, (extra[key],)) for key in sorted(extra))
    return User(name, uid, groups, more)


def _shown(uid: str, groups: tuple[str, ...], extra: dict[str, str]) -> str:
    """A wanted user without a name, as Go's %#v prints it."""
    listed = f"[]string{{{', '.join(map(quote, groups))}}}" if groups else "[]string(nil)"
    pairs = (f"{quote(key)}:[]string{{{quote(extra[key])}}}" for key in sorted(extra))
    mapped = f"map[string][]string{{{', '.join(pairs)}}}" if extra else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:{quote(uid)}, Groups:{listed}, Extra:{mapped}}}'


def _account(name: str) -> tuple[str, str] | None:
    """Namespace and name of a service account's user name."""
    if not name.startswith(SERVICE_ACCOUNT):
        return None
    namespace, _, rest = name.removeprefix(SERVICE_ACCOUNT).partition(":")
    return (namespace, rest) if namespace and rest and ":" not in rest else None
